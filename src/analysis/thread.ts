// The thread that compares large flows.
import type { Configuration } from "../flows/configuration.ts";
import { parseDocument } from "../flows/document.ts";
import { serveThread } from "../thread.ts";
import { analyzeDiff, analyzePlan } from "./analyze.ts";
import type { DiffCall, DiffResult, EncodedConfiguration, PlanCall, PlanResult } from "./messages.ts";

serveThread<DiffCall | PlanCall, DiffResult | PlanResult>((call) => {
  const [base, target] = [decode(call.base), decode(call.target)];
  return {
    reply:
      call.kind === "diff"
        ? analyzeDiff({ base, target })
        : analyzePlan({ ...call, base, target, current: call.current === call.base ? base : decode(call.current) }),
  };
});

function decode({ json, credentials }: EncodedConfiguration): Configuration {
  return { flows: parseDocument(json).nodes, credentials };
}
