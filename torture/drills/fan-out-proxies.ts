import { openEnvoy } from "../../test/e2e/envoy.ts";
import { openHaproxy } from "../../test/e2e/haproxy.ts";
import { openNginx } from "../../test/e2e/nginx.ts";
import type { Drill } from "../drill.ts";
import { type FanOut, fanOut, loadsOf } from "../fan-out/fan-out.ts";
import { proxies } from "../programs.ts";

const ways = { nginx: openNginx, HAProxy: openHaproxy, Envoy: openEnvoy };

export const manyStreamsThroughProxies: Drill = {
  name: "fan-out-proxies",
  title: "Deployments to 1,000 streams through proxies",
  promise:
    "The promise of [fan-out](#fan-out) holds through nginx, HAProxy and Envoy with the configurations of [deploy/](../deploy).",
  method: "[fan-out](#fan-out), with a separate service behind each proxy. Proxies buffer for a suspended client.",
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
