import type { Drill } from "../drill.ts";
import { fanOut, loadsOf, sizes } from "../fan-out/fan-out.ts";

export const manyStreams: Drill = {
  name: "fan-out",
  title: "Deployments to 1,000 streams",
  promise:
    "Each of many concurrent streams gets every deployment event once, in order and under the same id as the others, however often its client resumes. A client that stops reading takes bounded memory, and is disconnected or told how many events it has missed.",
  method:
    "Clients read deployment events over gRPC, Connect, gRPC-Web and SSE, and every second one disconnects at random and resumes. Further clients are suspended until the last of 100 deployments, while flows log large warnings. The events of each client are compared with those of all others and with the acknowledged deployments.",
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
