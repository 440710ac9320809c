import { type EncodedRequest, getEncodedRequest, takeEncodedRequest, RequestError } from "@flowgate/gateway";
import type { Logger } from "pino";
import { programFile } from "../../base/program-file.ts";
import { type Caller, type TimeLimit, openSharedThreads } from "@flowgate/base/shared-threads";
import { FlowgateError } from "@flowgate/flows/errors";
import { tooLargeToDecode } from "../../base/decoding-limit.ts";
import { type CurrentCredentials, type Decrypt, type FlowsDocument, isLong, parseDocument } from "@flowgate/flows";
import { decryptCredentials } from "@flowgate/flows/encrypted";
import { type FlowEdit, editFlow, findCreated } from "./edit-flow.ts";
import {
  type PreparationCall,
  type PreparationData,
  type PreparationReply,
  type SerializedFlows,
  deserializeError,
} from "./messages.ts";
import {
  type DecodedFlowRequest,
  type FlowRequest,
  type FlowsRequest,
  type PreparedDeployment,
  type PreparedFlows,
  prepareDeployment,
  readFlowRequest,
} from "./prepare-deployment.ts";

/** Prepares deployments for the commit. Disposing ends the threads. */
export interface Preparation extends AsyncDisposable {
  /**
   * As `prepareDeployment`, but first decodes a request that was not decoded yet. Rejects with a RequestError of status 413 if that takes
   * too much memory, with `limit_exceeded` if it takes too much time, with the reason of the caller's signal when that is aborted, and
   * with `unavailable` if the thread exits for another reason.
   */
  prepare(request: FlowsRequest, current: CurrentCredentials, caller: Caller): Promise<PreparedDeployment>;
  /** Decodes a request that creates or replaces one flow. Rejects as `prepare`. */
  decodeFlow(request: FlowRequest, caller: Caller): Promise<DecodedFlowRequest>;
  /** As the function `editFlow`, with the flows and credentials of a revision. Rejects as `prepare` too. */
  editFlow(edit: FlowEdit, active: ActiveFlows, caller: Caller): Promise<Omit<PreparedFlows, "kind">>;
  /** As the function `findCreated`. Rejects as `prepare` too. */
  findCreated(flows: FlowsDocument, caller: Caller): Promise<string>;
}

type ActiveFlows = CurrentCredentials & { readonly flows: FlowsDocument };

export type PreparationOptions = PreparationData & {
  /** The secrets that credentials in the `$` format may have been encrypted with, which can change. */
  readonly secrets: () => readonly string[];
  readonly log: Logger;
  readonly readLimit: TimeLimit;
  readonly deploymentLimit: TimeLimit;
};

/**
 * Bodies up to this size block the event loop for about 2 ms and need no thread. Longer ones do not share their memory with
 * other bodies, as small reads from a socket do, so that they can be transferred to the thread.
 */
const maxShortBytes = 64 * 1024;

/** Longer bodies, of which the longest take seconds, have a thread of their own, so that they do not delay others. */
const maxMediumBytes = 2 * 1024 * 1024;

/** A large young generation, because most objects that parsing allocates live until the end of the call. */
const maxYoungGenerationSizeMb = 64;

/**
 * Decodes and validates deployments in threads, to which the bytes of the request are transferred. A short request, and one
 * that an interceptor has read and may have changed, is prepared on the event loop. `memoryMb` limits the heap of each thread.
 */
export function openPreparation({
  secrets,
  log,
  memoryMb,
  readLimit,
  deploymentLimit,
}: PreparationOptions): Preparation {
  const open = (name: string, limit: TimeLimit) =>
    openSharedThreads<PreparationCall, PreparationReply>({
      name,
      count: 1,
      work: "decoding and validating these flows",
      limit,
      entry: programFile("deployments/preparation/thread"),
      data: { memoryMb } satisfies PreparationData,
      limits: { maxYoungGenerationSizeMb, maxOldGenerationSizeMb: memoryMb },
      outOfMemory: () => tooLargeToDecode("more memory to decode than limits.memoryMb"),
      onUnexpectedExit: (err) => log.error({ err }, `the thread "${name}" exited`),
    });
  const decrypt: Decrypt = (encrypted, findTypes) => decryptCredentials(secrets(), encrypted, findTypes);
  const medium = open("flowgate deployments", deploymentLimit);
  const large = open("flowgate large deployments", deploymentLimit);
  // Callers who may only read can't delay deployments.
  const plans = open("flowgate plans", readLimit);
  const threadFor = (request: FlowsRequest, length: number) => {
    if (request.$typeName === "flowgate.v1.PlanFlowsRequest") {
      return plans;
    }
    return length > maxMediumBytes ? large : medium;
  };

  return {
    async decodeFlow(request, caller) {
      const length = getEncodedRequest(request)?.bytes.length ?? 0;
      const source = length > maxShortBytes ? takeEncodedRequest(request) : undefined;
      if (source === undefined) {
        return readFlowRequest(request);
      }
      const call = { kind: "decode", source, typeName: request.$typeName } as const;
      const thread = length > maxMediumBytes ? large : medium;
      const reply = await thread.call(call, caller, [source.bytes.buffer as ArrayBuffer]);
      return expectReply(reply, "decoded").request;
    },
    async editFlow(edit, { flows, credentials, kept }, caller) {
      const flowBytes = "flow" in edit ? edit.flow.length : 0;
      if (flowBytes <= maxShortBytes && !isLong(flows)) {
        return editFlow(edit, flows.nodes, credentials, decrypt);
      }
      const current = { credentials, kept };
      const thread = flowBytes + flows.json.length > maxMediumBytes ? large : medium;
      const call = { kind: "edit", edit, document: flows.json, current, secrets: secrets() } as const;
      return toFlows(expectReply(await thread.call(call, caller), "edited").outcome, current);
    },
    async findCreated(flows, caller) {
      return isLong(flows)
        ? expectReply(await large.call({ kind: "find-created", document: flows.json }, caller), "found").id
        : findCreated(flows.nodes);
    },
    async prepare(request, { credentials, kept }, caller) {
      // Without the other properties of a revision, which are not sent to the thread.
      const current = { credentials, kept };
      const encoded = getEncodedRequest(request);
      // Must read the bytes before they are transferred to the thread.
      const versionMismatch = findApiVersionMismatch(encoded);
      const length = encoded?.bytes.length ?? 0;
      const source = length > maxShortBytes ? takeEncodedRequest(request) : undefined;
      try {
        return source === undefined
          ? await prepareDeployment(request, current.credentials, decrypt)
          : toPrepared(
              await threadFor(request, length).call(
                { kind: "prepare", source, typeName: request.$typeName, current, secrets: secrets() },
                caller,
                [source.bytes.buffer as ArrayBuffer],
              ),
              current,
            );
      } catch (error) {
        throw isInvalidMessage(error) ? (versionMismatch ?? error) : error;
      }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([medium, large, plans].map((threads) => threads[Symbol.asyncDispose]()));
    },
  };
}

/** Throws the error of a call that failed. */
function expectReply<Kind extends PreparationReply["kind"]>(
  reply: PreparationReply,
  kind: Kind,
): Extract<PreparationReply, { kind: Kind }> {
  if (reply.kind === "failed") {
    throw deserializeError(reply.error);
  }
  if (reply.kind !== kind) {
    throw new TypeError(`the thread replied ${reply.kind} instead of ${kind}`);
  }
  return reply as Extract<PreparationReply, { kind: Kind }>;
}

function toFlows(
  { json, count, types, needs, credentials, submitted }: SerializedFlows,
  current: CurrentCredentials,
): Omit<PreparedFlows, "kind"> {
  const flows = parseDocument(json, count, types, needs);
  return { flows, credentials: credentials ?? current.credentials, submitted };
}

function toPrepared(reply: PreparationReply, current: CurrentCredentials): PreparedDeployment {
  const { kind: _, outcome, ...prepared } = expectReply(reply, "prepared");
  switch (outcome.kind) {
    case "reload":
      return { ...prepared, outcome };
    case "rejected":
      return { ...prepared, outcome: { kind: "rejected", error: deserializeError(outcome.error) } };
    case "flows":
      return { ...prepared, outcome: { kind: "flows", ...toFlows(outcome, current) } };
  }
}

/** Returns an error that names the missing header if an HTTP body has the shape of the other API version. */
function findApiVersionMismatch(source: EncodedRequest | undefined): FlowgateError | undefined {
  if (source?.format.kind !== "http") {
    return undefined;
  }
  const isV2 = source.format.headers["service-api-version"] === "v2";
  const shape = firstCharacter(source.bytes);
  if (!isV2 && shape === "{") {
    return new FlowgateError(
      "invalid_flows",
      'the body: must be an array of nodes in API version v1, the default; for an object send the header "Service-API-Version: v2"',
    );
  }
  if (isV2 && shape === "[") {
    return new FlowgateError(
      "invalid_flows",
      'the body: must be an object in API version v2; for an array of nodes send the header "Service-API-Version: v1"',
    );
  }
  return undefined;
}

/** True if the body is valid JSON, but not a valid message. For this error the gateway sets no reason. */
function isInvalidMessage(error: unknown): boolean {
  return error instanceof RequestError && error.status === 400 && error.reason === undefined;
}

const whitespace: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n"));

function firstCharacter(json: Uint8Array): string {
  const first = json.find((byte) => !whitespace.has(byte));
  return first === undefined ? "" : String.fromCharCode(first);
}
