import type { Drill } from "../drill.ts";
import { flowEscapes as escapes } from "../flow-escapes.ts";

export const flowEscapes: Drill = {
  name: "flow-escapes",
  title: `${escapes.length} attempts of flows to become the operator`,
  promise:
    "Flows do not gain the operator's rights, and a corrective deployment followed by a restart ends all code of the previous flows.",
  method:
    "Each attempt of [flow-escapes.ts](../torture/flow-escapes.ts) runs in a separate service: flows leave code that the next start could load, configure the operator's npm, and more. Each has its own control.",
  limits: "Attempts that need a vulnerability of Node.js or the kernel are not made.",
  async run(context) {
    const results = [];
    for (const escape of escapes) {
      const { name, planted } = escape;
      context.progress(name);
      const { tries, gained, found } = await escape.make(context);
      results.push({ name, tries, gained, control: { planted: `${name}: ${planted}`, found } });
    }
    return {
      loads: results.map(({ name, tries }) => ({ name: `tries of ${name}`, count: tries, minimum: 1 })),
      figures: [],
      violations: results.flatMap(({ name, gained }) => gained.map((what) => `${name}: ${what}`)),
      controls: results.map(({ control }) => control),
    };
  },
};
