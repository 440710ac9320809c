import { openEnvoy } from "../../test/e2e/envoy.ts";
import { openHaproxy } from "../../test/e2e/haproxy.ts";
import { openNginx } from "../../test/e2e/nginx.ts";
import type { Context } from "../context.ts";
import type { Drill, Load } from "../drill.ts";
import { type FanOut, fanOut, sizes } from "../fan-out/fan-out.ts";
import { proxies } from "../programs.ts";

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

const ways = { nginx: openNginx, HAProxy: openHaproxy, Envoy: openEnvoy };

export const manyStreamsThroughProxies: Drill = {
  name: "fan-out-proxies",
  title: "Deployments to 1,000 streams through proxies",
  promise:
    "The same through nginx, HAProxy and Envoy with the configurations of [deploy/](../deploy), to which clients connect as they do to the service.",
  method:
    "That of [fan-out](#fan-out), with a service of its own behind each proxy; in small size behind one of them, which the seed chooses. Proxies read on for a client that is suspended, as far as their buffers go.",
  programs: proxies,
  async run(context) {
    const outcomes: (FanOut & { readonly name: string })[] = [];
    const all = Object.entries(ways);
    const chosen = Math.floor(all.length * context.random());
    for (const [name, way] of context.pick(all.slice(chosen, chosen + 1), all)) {
      const progress = (text: string) => context.progress(`${name}: ${text}`);
      outcomes.push({ name, ...(await fanOut({ ...context, progress }, way)) });
    }
    const format = (value: number) => value.toLocaleString("en-US", { maximumFractionDigits: 0 });
    return {
      loads: outcomes.flatMap((outcome) =>
        loadsOf(context, outcome).map((load) => ({ ...load, name: `${load.name}, ${outcome.name}` })),
      ),
      figures: [],
      rows: outcomes.map(({ name, cutOff, peakMiB, p99Ms }) => ({
        proxy: name,
        "suspended clients that were disconnected or missed events": format(cutOff),
        "highest memory": `${format(peakMiB)} MiB`,
        "p99 of health and settings": `${format(p99Ms)} ms`,
      })),
      violations: outcomes.flatMap(({ name, violations }) => violations.map((each) => `through ${name}: ${each}`)),
      controls: outcomes.flatMap(({ name, controls }) =>
        controls.map(({ planted, found }) => ({ planted: `${planted} (${name})`, found })),
      ),
    };
  },
};

function loadsOf({ pick, size }: Context, { deployments, deliveries, resumes }: FanOut): Load[] {
  const minimum = sizes[size].deployments * 0.8;
  return [
    { name: "deployments", count: deployments, minimum },
    // Each deployment has at least two events.
    { name: "events that were received", count: deliveries, minimum: 2 * minimum * sizes[size].streams },
    { name: "streams that were resumed", count: resumes, minimum: pick(40, 2_000) },
  ];
}
