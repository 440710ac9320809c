// The threads that compare, merge and validate flows.
import { workerData } from "node:worker_threads";
import { createRegistry, type DescMethod, type Message, toBinary } from "@bufbuild/protobuf";
import { createJsonEncoder } from "@flowgate/gateway";
import { createJsonCodec } from "@flowgate/gateway/server";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { RevisionsService } from "../../gen/flowgate/v1/revisions_pb.ts";
import { FlowgateError } from "../errors.ts";
import { Budget } from "../flows/budget.ts";
import type { Configuration } from "../flows/configuration.ts";
import { parseDocument } from "../flows/document.ts";
import { serveThread } from "../base/thread.ts";
import { analyzeDiff, analyzeMerge, analyzePlan, analyzeValidity } from "./analyze.ts";
import type {
  AnalysisCall,
  AnalysisData,
  AnalysisResult,
  EncodedConfiguration,
  EncodedResponse,
  ResponseFormat,
} from "./messages.ts";

const { maxResponseBytes, maxMs } = workerData as AnalysisData;

type Encode = (message: Message) => Uint8Array<ArrayBuffer>;

const encodeDiff = createEncoders(RevisionsService.method.diffRevision);
const encodePlan = createEncoders(FlowsService.method.planFlows);

serveThread<AnalysisCall, AnalysisResult>(async (call) => {
  const base = decode(call.base);
  const budget = new Budget({ maxOutputBytes: maxResponseBytes, maxMs });
  switch (call.kind) {
    case "diff":
      return respond(analyzeDiff({ ...call, base, target: decode(call.target) }, budget), call.format, encodeDiff);
    case "plan": {
      const current = call.current === call.base ? base : decode(call.current);
      const contents = { base, target: decode(call.target), current };
      return respond(analyzePlan({ ...call, ...contents }, budget), call.format, encodePlan);
    }
    case "merge":
      return {
        reply: await analyzeMerge({ ...call, base, ours: decode(call.ours), theirs: decode(call.theirs) }, budget),
      };
    case "validate":
      return { reply: analyzeValidity({ base }) };
  }
});

function respond(
  message: Message & { readonly text: string },
  format: ResponseFormat,
  encode: Readonly<Record<ResponseFormat, Encode>>,
): { reply: EncodedResponse; transfer: ArrayBuffer[] } {
  const bytes = encode[format](message);
  const text = format === "http" ? new TextEncoder().encode(message.text) : undefined;
  const length = bytes.length + (text?.length ?? 0);
  if (length > maxResponseBytes) {
    throw new FlowgateError(
      "limit_exceeded",
      `the description of these changes takes ${length} bytes, more than ${maxResponseBytes}, a quarter of limits.memoryMb: raise it, or compare flows with fewer changes`,
    );
  }
  return { reply: { bytes, text }, transfer: [bytes.buffer, ...(text === undefined ? [] : [text.buffer])] };
}

/** The encodings of a method's responses, as the server encodes them. */
function createEncoders(method: DescMethod): Readonly<Record<ResponseFormat, Encode>> {
  const json = createJsonCodec(method, { maxDepth: 100, registry: createRegistry(), prototypeKeys: "reject" });
  return {
    http: createJsonEncoder(method.output),
    json: (message) => new TextEncoder().encode(json.encode(message)),
    proto: (message) => toBinary(method.output, message),
  };
}

function decode({ json, ...rest }: EncodedConfiguration): Configuration {
  return { flows: parseDocument(json).nodes, ...rest };
}
