import type { Drill } from "../drill.ts";
import { fanOut, loadsOf, sizes } from "../fan-out/fan-out.ts";

const clients =
  "A fifth each of the clients read the events of deployments over gRPC, Connect and SSE on HTTP/2, and over gRPC-Web and SSE on HTTP/1.1. " +
  "Every other one disconnects at random and resumes after its last event. The process of further clients, which ask for all events, is suspended until the last deployment, " +
  "while the flows of each deployment log 100 large warnings.";

export const manyStreams: Drill = {
  name: "fan-out",
  title: "Deployments to 1,000 streams",
  promise:
    "Each of many concurrent streams, however often its client resumes it, gets every event about the deployments once, in order and under the same id as the " +
    "others. A client that stops reading takes bounded memory, and is disconnected or told how many events it has missed.",
  method:
    `${clients} What each client has received over all its connections is compared with what all others have, and with the acknowledged deployments; ` +
    "a client that stopped may lack as many events as it was told. There are 100 deployments, and 1,000 and 40 clients; 15, 60 and 5 in small size. Limits of concurrent streams are " +
    "raised, as all clients have the same address, and clients that read nothing are disconnected after 3 s. The time and the share of answers to health and settings are figures only. The controls are clients behind proxies that lose, repeat and swap events of one deployment.",
  async run(context) {
    const outcome = await fanOut(context, undefined);
    const { cutOff, peakMiB, p99Ms, unanswered, violations, controls } = outcome;
    return {
      loads: [
        ...loadsOf(context, outcome),
        {
          name: "suspended clients that were disconnected or missed events",
          count: cutOff,
          minimum: Math.floor(sizes[context.size].stopped / 4),
        },
      ],
      figures: [
        { name: "highest memory", value: peakMiB, unit: "MiB" },
        { name: "p99 of health and settings", value: p99Ms, unit: "ms" },
        { name: "of them rejected, or not answered within 10 s", value: 100 * unanswered, unit: "%" },
      ],
      violations,
      controls,
    };
  },
};
