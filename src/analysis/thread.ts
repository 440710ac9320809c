// The thread that compares large flows.
import type { Configuration } from "../flows/configuration.ts";
import { parseDocument } from "../flows/document.ts";
import { serveThread } from "../thread.ts";
import { analyzeDiff, analyzeMerge, analyzePlan } from "./analyze.ts";
import { type AnalysisCall, type AnalysisResult, type EncodedConfiguration, maxPlannedNodes } from "./messages.ts";

serveThread<AnalysisCall, AnalysisResult>(async (call) => ({ reply: await analyze(call) }));

function analyze(call: AnalysisCall): AnalysisResult | Promise<AnalysisResult> {
  const base = decode(call.base);
  switch (call.kind) {
    case "diff":
      return analyzeDiff({ base, target: decode(call.target) });
    case "plan": {
      const current = call.current === call.base ? base : decode(call.current);
      return analyzePlan({ ...call, base, target: decode(call.target), current }, maxPlannedNodes);
    }
    case "merge":
      return analyzeMerge({ kind: "merge", base, ours: decode(call.ours), theirs: decode(call.theirs) });
  }
}

function decode({ json, credentials }: EncodedConfiguration): Configuration {
  return { flows: parseDocument(json).nodes, credentials };
}
