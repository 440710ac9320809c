// The thread that decodes and validates large deployments.
import { workerData } from "node:worker_threads";
import type { Message } from "@bufbuild/protobuf";
import { FlowsService, type SetFlowsRequest } from "../../gen/flowgate/v1/flows_pb.ts";
import { decryptCredentials } from "../flows/encrypted.ts";
import { prepareDeployment, type PreparedDeployment } from "../flows/prepare.ts";
import { createProtoDecoder, maxDepth } from "../server/rpc/decode.ts";
import { serveThread } from "../thread.ts";
import type { EncodedRequest } from "@flowgate/transcoding";
import { createJsonCodec } from "@flowgate/transcoding/server";
import { createReachableRegistry } from "@flowgate/transcoding";
import { createRequestDecoder } from "@flowgate/transcoding";
import type { PreparationCall, PreparationData, PreparationReply } from "./messages.ts";
import { serializeError } from "./serialized-error.ts";

const { credentialSecret } = workerData as PreparationData;
const method = FlowsService.method.setFlows;
const decodeHttp = createRequestDecoder(method);
const decoders = {
  json: createJsonCodec(method, maxDepth, createReachableRegistry([method])).decode,
  proto: createProtoDecoder(method.input),
};

serveThread<PreparationCall, PreparationReply>(async ({ source, current }) => {
  const reply = await prepare(source, current);
  const hasDocument = reply.kind === "prepared" && reply.outcome?.kind === "flows";
  return { reply, transfer: hasDocument ? [reply.outcome.json.buffer] : [] };
});

async function prepare(source: EncodedRequest, current: PreparationCall["current"]): Promise<PreparationReply> {
  try {
    const request = (await decode(source)) as SetFlowsRequest;
    const decrypt = (encrypted: string) => decryptCredentials(credentialSecret, encrypted);
    const { type, rev, fields, outcome } = await prepareDeployment(request, current, decrypt);
    return { kind: "prepared", type, rev, fields, outcome: serializeOutcome(outcome, current) };
  } catch (error) {
    return { kind: "failed", error: serializeError(error) };
  }
}

function decode({ bytes, format }: EncodedRequest): Message | Promise<Message> {
  return format.kind === "http" ? decodeHttp(bytes, format) : decoders[format.kind](bytes);
}

function serializeOutcome(
  outcome: PreparedDeployment["outcome"],
  current: PreparationCall["current"],
): Extract<PreparationReply, { kind: "prepared" }>["outcome"] {
  if (outcome === undefined) {
    return undefined;
  }
  if (outcome instanceof Error) {
    return { kind: "rejected", error: serializeError(outcome) };
  }
  const { json, count } = outcome.flows;
  const credentials = outcome.credentials === current ? undefined : outcome.credentials;
  return { kind: "flows", json: json as Uint8Array<ArrayBuffer>, count, credentials, submitted: outcome.submitted };
}
