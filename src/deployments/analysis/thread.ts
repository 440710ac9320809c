// The threads that compare, merge and validate flows.
import { workerData } from "node:worker_threads";
import { type DescMessage, type DescMethod, type Message, fromBinary, isMessage, toBinary } from "@bufbuild/protobuf";
import { createJsonEncoder } from "@flowgate/gateway";
import { FlowSchema, FlowsService, type PlanFlowsResponse } from "../../../gen/flowgate/v1/flows_pb.ts";
import { ProposalsService } from "../../../gen/flowgate/v1/proposals_pb.ts";
import { type DiffRevisionResponse, RevisionsService } from "../../../gen/flowgate/v1/revisions_pb.ts";
import { serveThread } from "@flowgate/base/thread";
import { FlowgateError } from "@flowgate/flows/errors";
import { type Configuration, formatDocument, parseDocument, findViolation, Budget, planModules } from "@flowgate/flows";
import {
  findChangedContainers,
  diffFlows,
  formatDiff,
  mergeFlows,
  compareSides,
  findAffected,
  formatPlan,
  planDeployment,
} from "@flowgate/flows/compare";
import { toNodes } from "../messages/flow-nodes.ts";
import { requireFlow, toFlow } from "../messages/single-flow.ts";
import type {
  AnalysisCall,
  AnalysisData,
  AnalysisResult,
  DiffCall,
  EncodeCall,
  EncodedConfiguration,
  EncodedResponse,
  MergeCall,
  MergeReply,
  PlanCall,
  ResponseFormat,
  ValidateCall,
  ValidateResult,
} from "./messages.ts";
import { toNodeChanges } from "./node-changes.ts";
import { toDiffRevisionResponse, toPlanFlowsResponse } from "./responses.ts";

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
    case "affected":
      return { reply: { affected: findAffected(base, decode(call.target)) } };
    case "containers":
      return { reply: { changed: findChangedContainers(base, decode(call.target), call.touched) } };
    case "validate":
      return { reply: analyzeValidity({ base }) };
    case "encode": {
      const bytes = encodeWithFlows({ ...call, base });
      return { reply: { bytes, text: undefined }, transfer: [bytes.buffer] };
    }
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
  return {
    http: createJsonEncoder(method.output),
    json: createJsonEncoder(method.output, { format: "json" }),
    proto: (message) => toBinary(method.output, message),
  };
}

/** The response types that contain flows. */
const withFlows = new Map<string, { readonly desc: DescMessage; readonly encode: ReturnType<typeof createEncoders> }>(
  [
    FlowsService.method.getFlows,
    FlowsService.method.getFlow,
    RevisionsService.method.getRevision,
    ProposalsService.method.getProposal,
  ].map((method) => [method.output.typeName, { desc: method.output, encode: createEncoders(method) }]),
);

function encodeWithFlows({
  base: { flows },
  typeName,
  fields,
  format,
}: EncodeCall<Configuration>): Uint8Array<ArrayBuffer> {
  const known = withFlows.get(typeName);
  if (known === undefined) {
    throw new TypeError(`${typeName} has no flows`);
  }
  const message = fromBinary(known.desc, fields);
  const whole = isMessage(message, FlowSchema)
    ? toFlow(message.id, requireFlow(flows, message.id), message.rev)
    : Object.assign(message, { flows: toNodes(flows) });
  return known.encode[format](whole);
}

function decode({ json, ...rest }: EncodedConfiguration): Configuration {
  return { flows: parseDocument(json).nodes, ...rest };
}

export function analyzeDiff(
  { base, target, names, deployment, modules: known }: DiffCall<Configuration>,
  budget: Budget,
): DiffRevisionResponse {
  const diff = diffFlows(base, target, budget);
  const modules = planModules(target.flows, known, budget).filter(({ state }) => state !== "present");
  const text = formatDiff(diff, { base: base.flows, target: target.flows }, budget);
  if (deployment === undefined) {
    return toDiffRevisionResponse({ ...names, diff, text, modules, plan: undefined });
  }
  const { type, isRunning, missingTypes } = deployment;
  const types = new Set(target.flows.map((node) => node.type)).difference(new Set(missingTypes));
  const knownTypes = missingTypes.length === 0 ? undefined : types;
  const plan = planDeployment(base, target, type, { isRunning, knownTypes }, budget);
  return toDiffRevisionResponse({ ...names, diff, modules, plan, text: `${formatPlan(plan, budget)}\n${text}` });
}

export function analyzePlan(
  { base, target, current, rev, type, runtime, active }: PlanCall<Configuration>,
  budget: Budget,
): PlanFlowsResponse {
  const diff = diffFlows(base, target, budget);
  const plan = planDeployment(current, target, type, runtime, budget);
  const text = `${formatPlan(plan, budget)}\n${formatDiff(diff, { base: base.flows, target: target.flows }, budget)}`;
  return toPlanFlowsResponse({ rev, diff, plan, text, ...active });
}

export async function analyzeMerge(
  { base, ours, theirs }: MergeCall<Configuration>,
  budget: Budget,
): Promise<MergeReply> {
  const changes = compareSides(base, ours, theirs);
  const result = mergeFlows(base, ours, theirs, budget);
  if (result.kind === "conflict") {
    const { conflicts } = result;
    return { changes: toNodeChanges(changes, conflicts), conflictCount: conflicts.length, merged: undefined };
  }
  const { flows, credentials } = result.configuration;
  const { json, count, needs } = formatDocument(flows);
  return { changes: toNodeChanges(changes, []), conflictCount: 0, merged: { json, count, needs, credentials } };
}

export function analyzeValidity({ base }: Pick<ValidateCall<Configuration>, "base">): ValidateResult {
  return { violation: findViolation(toNodes(base.flows)) };
}
