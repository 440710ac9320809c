// The thread that decodes and validates large deployments.
import { workerData } from "node:worker_threads";
import type { DescMethodUnary, Message } from "@bufbuild/protobuf";
import { type EncodedRequest, createRequestDecoder } from "@flowgate/gateway";
import { serveThread } from "@flowgate/base/thread";
import { assertDecodable } from "../../base/decoding-limit.ts";
import { type Decrypt, type CurrentCredentials, parseDocument, readTypes } from "@flowgate/flows";
import { decryptCredentials } from "@flowgate/flows/encrypted";
import {
  type PreparationCall,
  type PreparationData,
  type PreparationReply,
  type SerializedFlows,
  serializeError,
} from "./messages.ts";
import { editFlow, findCreated } from "./edit-flow.ts";
import {
  type FlowRequest,
  type FlowsRequest,
  type PreparedDeployment,
  type PreparedFlows,
  flowMethods,
  preparedMethods,
  prepareDeployment,
  readFlowRequest,
} from "./prepare-deployment.ts";

const { memoryMb } = workerData as PreparationData;
const decoders = new Map<string, (source: EncodedRequest) => Message | Promise<Message>>(
  [...preparedMethods, ...flowMethods].map((method) => [method.input.typeName, createDecoder(method)]),
);

serveThread<PreparationCall, PreparationReply>(async (call) => {
  const reply = await prepare(call);
  const outcome = "outcome" in reply ? reply.outcome : undefined;
  const json = outcome?.kind === "flows" ? outcome.json : undefined;
  // A small document may be a part of Node's buffer pool, which can't be transferred.
  const isAlone = json !== undefined && json.byteLength === json.buffer.byteLength;
  return { reply, transfer: isAlone ? [json.buffer] : [] };
});

async function prepare(call: PreparationCall): Promise<PreparationReply> {
  const decrypt: Decrypt = (encrypted, findTypes) =>
    decryptCredentials("secrets" in call ? call.secrets : [], encrypted, findTypes);
  try {
    switch (call.kind) {
      case "prepare": {
        const { source, typeName, current } = call;
        const request = (await decoders.get(typeName)?.(source)) as FlowsRequest;
        const { outcome, ...prepared } = await prepareDeployment(request, current.credentials, decrypt);
        return { kind: "prepared", ...prepared, outcome: serializeOutcome(outcome, current) };
      }
      case "decode": {
        const request = (await decoders.get(call.typeName)?.(call.source)) as FlowRequest;
        return { kind: "decoded", request: readFlowRequest(request) };
      }
      case "find-created":
        return { kind: "found", id: findCreated(parseDocument(call.document).nodes) };
      case "edit": {
        const { edit, document, current } = call;
        const flows = await editFlow(edit, parseDocument(document).nodes, current.credentials, decrypt);
        return { kind: "edited", outcome: serializeFlows({ kind: "flows", ...flows }, current) };
      }
    }
  } catch (error) {
    return { kind: "failed", error: serializeError(error) };
  }
}

function createDecoder(method: DescMethodUnary): (source: EncodedRequest) => Message | Promise<Message> {
  const decode = createRequestDecoder(method, { prototypeKeys: "reject" });
  return ({ bytes, format }) => {
    assertDecodable(method.input, format.kind === "proto" ? "proto" : "json", bytes, memoryMb);
    return decode(bytes, format);
  };
}

function serializeOutcome(
  outcome: PreparedDeployment["outcome"],
  current: CurrentCredentials,
): Extract<PreparationReply, { kind: "prepared" }>["outcome"] {
  if (outcome.kind === "reload") {
    return outcome;
  }
  if (outcome.kind === "rejected") {
    return { kind: "rejected", error: serializeError(outcome.error) };
  }
  return serializeFlows(outcome, current);
}

function serializeFlows(outcome: PreparedFlows, current: CurrentCredentials): SerializedFlows {
  const { json, count, nodes, needs } = outcome.flows;
  const { inline, topLevel } = outcome.submitted;
  const ids = [current.kept, current.credentials, outcome.credentials, inline].flatMap((entries) => [
    ...entries.keys(),
  ]);
  return {
    kind: "flows",
    json: json as Uint8Array<ArrayBuffer>,
    count,
    types: readTypes(nodes, new Set([...ids, ...Object.keys(topLevel?.nodes ?? {})])),
    needs,
    credentials: outcome.credentials === current.credentials ? undefined : outcome.credentials,
    submitted: outcome.submitted,
  };
}
