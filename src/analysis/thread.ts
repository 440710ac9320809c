// The thread that compares large flows.
import { create } from "@bufbuild/protobuf";
import { createJsonEncoder } from "@flowgate/transcoding";
import { FlowsDiffSchema } from "../../gen/flowgate/v1/diff_pb.ts";
import type { Configuration } from "../flows/configuration.ts";
import type { FlowsDiff } from "../flows/diff/flows-diff.ts";
import { parseDocument } from "../flows/document.ts";
import { serveThread } from "../thread.ts";
import { analyzeDiff, analyzeMerge, analyzePlan, analyzeValidity } from "./analyze.ts";
import { toFlowsDiff } from "./diff-message.ts";
import {
  type AnalysisCall,
  type AnalysisResult,
  type DiffResult,
  type EncodedConfiguration,
  maxPlannedNodes,
} from "./messages.ts";

const encodeDiff = createJsonEncoder(FlowsDiffSchema);

serveThread<AnalysisCall, AnalysisResult>(async (call) => {
  const result = await analyze(call);
  if (call.kind === "merge" || call.kind === "validate" || !call.encodes) {
    return { reply: result };
  }
  const diff = encodeDiff(create(FlowsDiffSchema, toFlowsDiff((result as DiffResult).diff as FlowsDiff)));
  return { reply: { ...result, diff }, transfer: [diff.buffer] };
});

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
    case "validate":
      return analyzeValidity({ base });
  }
}

function decode({ json, credentials }: EncodedConfiguration): Configuration {
  return { flows: parseDocument(json).nodes, credentials };
}
