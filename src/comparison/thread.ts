// The thread that compares and merges flows, which takes up to 100 ms for 10,000 nodes.
import type { Configuration } from "../flows/configuration.ts";
import { formatDocument, parseDocument } from "../flows/document.ts";
import { compareSides } from "../flows/merge/compare-sides.ts";
import { mergeFlows } from "../flows/merge/merge-flows.ts";
import { serveThread } from "../thread.ts";
import type { ContentBytes, MergeCall, MergeReply } from "./messages.ts";

serveThread<MergeCall, MergeReply>(async (call) => {
  const [base, ours, theirs] = [parse(call.base), parse(call.ours), parse(call.theirs)];
  const changes = compareSides(base, ours, theirs);
  const result = mergeFlows(base, ours, theirs);
  if (result.kind === "conflict") {
    return { reply: { changes, conflicts: result.conflicts, merged: undefined } };
  }
  const { flows, credentials } = result.configuration;
  const { json, count } = await formatDocument(flows);
  return { reply: { changes, conflicts: [], merged: { json, count, credentials } } };
});

function parse({ json, credentials }: ContentBytes): Configuration {
  return { flows: parseDocument(json).nodes, credentials };
}
