import { extname } from "node:path";
import type { Logger } from "pino";
import type { SetFlowsRequest } from "../../gen/flowgate/v1/flows_pb.ts";
import type { CredentialSets } from "../flows/configuration.ts";
import type { Decrypt } from "../flows/credentials.ts";
import { parseDocument } from "../flows/document.ts";
import { prepareDeployment, type PreparedDeployment } from "../flows/prepare.ts";
import { createThread } from "../thread.ts";
import { takeEncodedRequest, getEncodedRequest } from "@flowgate/transcoding";
import type { PreparationCall, PreparationData, PreparationReply } from "./messages.ts";
import { fromSentError } from "./sent-error.ts";
import { findVersionMismatch, isInvalidMessage } from "./version-mismatch.ts";

/** Makes deployments ready to commit. Disposing ends the thread. */
export interface Preparation extends AsyncDisposable {
  /** As `prepareDeployment`; decodes the request first, where nothing has read it yet. `unavailable` if the thread dies. */
  prepare(request: SetFlowsRequest, current: CredentialSets): Promise<PreparedDeployment>;
}

/**
 * Up to here the event loop is blocked for about 2 ms, and no thread has to be started. No longer body shares its memory with
 * another either, as parts of what was read from a socket do: it can be given to a thread.
 */
const maxShortBytes = 64 * 1024;

/** The collector's young generation; most of what parsing allocates lives until the end. */
const limits = { maxYoungGenerationSizeMb: 64 };

/**
 * Decodes and checks deployments on a thread, which gets the bytes of the request. A short one, and one that an interceptor has
 * read, and so may have changed, is prepared on the event loop.
 */
export function openPreparation({
  credentialSecret,
  decrypt,
  log,
}: PreparationData & { readonly decrypt: Decrypt; readonly log: Logger }): Preparation {
  const thread = createThread<PreparationCall, PreparationReply>({
    name: "flowgate deployments",
    // The name ends as this file's does: .ts as it stands, .js when it is built.
    entry: new URL(`./thread${extname(import.meta.url)}`, import.meta.url),
    data: { credentialSecret } satisfies PreparationData,
    limits,
    died: (err) => log.error({ err }, "the thread that prepares deployments ended"),
  });

  return {
    async prepare(request, current) {
      const undecoded = getEncodedRequest(request);
      // Before the bytes are transferred to the thread.
      const versionFault = findVersionMismatch(undecoded);
      const isLong = (undecoded?.bytes.length ?? 0) > maxShortBytes;
      const source = isLong ? takeEncodedRequest(request) : undefined;
      try {
        return source === undefined
          ? await prepareDeployment(request, current, decrypt)
          : toPrepared(await thread.call({ source, current }, [source.bytes.buffer as ArrayBuffer]), current);
      } catch (error) {
        throw isInvalidMessage(error) ? (versionFault ?? error) : error;
      }
    },
    [Symbol.asyncDispose]: () => thread[Symbol.asyncDispose](),
  };
}

function toPrepared(result: PreparationReply, current: CredentialSets): PreparedDeployment {
  if (result.kind === "failed") {
    throw fromSentError(result.error);
  }
  const { type, rev, outcome } = result;
  switch (outcome?.kind) {
    case undefined:
      return { type, rev, outcome: undefined };
    case "refused":
      return { type, rev, outcome: fromSentError(outcome.error) };
    case "flows": {
      const { json, count, credentials = current, given } = outcome;
      return { type, rev, outcome: { flows: parseDocument(json, count), credentials, given } };
    }
  }
}
