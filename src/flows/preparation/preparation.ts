import { type EncodedRequest, getEncodedRequest, takeEncodedRequest } from "@flowgate/gateway";
import { RequestError } from "@flowgate/gateway";
import type { Logger } from "pino";
import { programFile } from "../../base/program-file.ts";
import { type Caller, type TimeLimit, openSharedThreads } from "../../base/shared-threads.ts";
import { FlowgateError } from "../../errors.ts";
import { tooLargeToDecode } from "../../base/decoding-limit.ts";
import type { CurrentCredentials } from "../configuration.ts";
import type { Decrypt } from "../credentials.ts";
import { parseDocument } from "../document.ts";
import { decryptCredentials } from "../encrypted.ts";
import { type PreparationCall, type PreparationData, type PreparationReply, deserializeError } from "./messages.ts";
import { type FlowsRequest, type PreparedDeployment, prepareDeployment } from "./prepare-deployment.ts";

/** Prepares deployments for the commit. Disposing ends the threads. */
export interface Preparation extends AsyncDisposable {
  /**
   * As `prepareDeployment`, but first decodes a request that was not decoded yet. Rejects with a RequestError of status 413 if that takes
   * too much memory, with `limit_exceeded` if it takes too much time, with the reason of the caller's signal when that is aborted, and
   * with `unavailable` if the thread exits for another reason.
   */
  prepare(request: FlowsRequest, current: CurrentCredentials, caller: Caller): Promise<PreparedDeployment>;
}

export type PreparationOptions = PreparationData & {
  /** The secrets that credentials in the `$` format may have been encrypted with, which can change. */
  readonly secrets: () => readonly string[];
  readonly log: Logger;
  /** For plans. */
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
      entry: programFile("flows/preparation/thread"),
      data: { memoryMb } satisfies PreparationData,
      limits: { maxYoungGenerationSizeMb, maxOldGenerationSizeMb: memoryMb },
      outOfMemory: () => tooLargeToDecode("more memory to decode than limits.memoryMb"),
      onUnexpectedExit: (err) => log.error({ err }, `the thread "${name}" exited`),
    });
  const decrypt: Decrypt = (encrypted, findTypes) => decryptCredentials(secrets(), encrypted, findTypes);
  const medium = open("flowgate deployments", deploymentLimit);
  const large = open("flowgate large deployments", deploymentLimit);
  // So that those who may only read can't delay deployments.
  const plans = open("flowgate plans", readLimit);
  const threadFor = (request: FlowsRequest, length: number) => {
    if (request.$typeName === "flowgate.v1.PlanFlowsRequest") {
      return plans;
    }
    return length > maxMediumBytes ? large : medium;
  };

  return {
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
                { source, typeName: request.$typeName, current, secrets: secrets() },
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

function toPrepared(result: PreparationReply, current: CurrentCredentials): PreparedDeployment {
  if (result.kind === "failed") {
    throw deserializeError(result.error);
  }
  const { kind: _, outcome, ...prepared } = result;
  switch (outcome.kind) {
    case "reload":
      return { ...prepared, outcome };
    case "rejected":
      return { ...prepared, outcome: { kind: "rejected", error: deserializeError(outcome.error) } };
    case "flows": {
      const { json, count, types, needs, credentials = current.credentials, submitted } = outcome;
      const flows = parseDocument(json, count, types, needs);
      return { ...prepared, outcome: { kind: "flows", flows, credentials, submitted } };
    }
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

/** Whether the body is valid JSON, but not a valid message. For this error the gateway sets no reason. */
function isInvalidMessage(error: unknown): boolean {
  return error instanceof RequestError && error.status === 400 && error.reason === undefined;
}

const whitespace: ReadonlySet<number> = new Set(Buffer.from(" \t\r\n"));

function firstCharacter(json: Uint8Array): string {
  const first = json.find((byte) => !whitespace.has(byte));
  return first === undefined ? "" : String.fromCharCode(first);
}
