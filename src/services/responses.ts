import {
  type DescMessage,
  type Message,
  type MessageInitShape,
  type MessageShape,
  create,
  fromBinary,
  fromJsonString,
  toBinary,
} from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { createEncodedMessage, setEncodedField } from "@flowgate/gateway";
import {
  type GetFlowsResponse,
  GetFlowsResponseSchema,
  type Node,
  type SetFlowsResponseSchema,
} from "../../gen/flowgate/v1/flows_pb.ts";
import type { Analysis } from "../deployments/analysis/analysis.ts";
import type { EncodedResponse, ResponseFormat } from "../deployments/analysis/messages.ts";
import { callerOf, peerKey } from "../auth/caller.ts";
import type { Deployed } from "../deployments/deployer.ts";
import { outcomes } from "../deployments/revision-message.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import { type FlowsDocument, isLong } from "@flowgate/flows";
import { toNodes } from "../deployments/messages/flow-nodes.ts";
import { outcomeMessage } from "@flowgate/runtime";
import type { FlowStore } from "../store/flow-store.ts";
import type { Revision } from "../store/revision.ts";
import { responseFormatOf } from "./rest.ts";

type FlowsFormat = { readonly context: HandlerContext; readonly analysis: Pick<Analysis, "encode"> };

/**
 * Creates a response with flows. HTTP responses contain the document's JSON unchanged; RPC responses encode its nodes,
 * in a thread if the document is long.
 */
export async function responseWithFlows<Desc extends DescMessage>(
  desc: Desc,
  fields: MessageShape<Desc>,
  flows: FlowsDocument,
  { context, analysis }: FlowsFormat,
): Promise<MessageShape<Desc>> {
  return isLong(flows) && responseFormatOf(context) !== "http"
    ? encodedResponse(desc, fields, flows, { context, analysis })
    : lazyResponse(fields, flows);
}

/** The same, encoded in a thread in each format. `fields` are the others, or the `id` and `rev` of a `Flow`. */
export function encodedResponse<Desc extends DescMessage>(
  desc: Desc,
  fields: MessageShape<Desc>,
  flows: FlowsDocument,
  { context, analysis }: FlowsFormat,
): Promise<MessageShape<Desc>> {
  const base = { flows, credentials: new Map() };
  const response = { typeName: desc.typeName, fields: toBinary(desc, fields) };
  return analyzedResponse(desc, context, (format) => analysis.encode({ base, format, ...response }, callerOf(context)));
}

/** The nodes are converted at the first access. */
function lazyResponse<T extends Message>(response: T, flows: FlowsDocument): T {
  let nodes: Node[] | undefined;
  Object.defineProperty(response, "flows", { enumerable: true, get: () => (nodes ??= toNodes(flows.nodes)) });
  return setEncodedField(response, "flows" as keyof T & string, flows.json);
}

/** The responses with the flows of the active revision, whose encodings are cached. */
export class ActiveFlowsResponses {
  readonly #short = new WeakMap<Revision, GetFlowsResponse>();
  readonly #long = new WeakMap<Revision, Map<ResponseFormat, GetFlowsResponse>>();

  /** Revisions can share a document. */
  respond(revision: Revision, using: FlowsFormat): GetFlowsResponse | Promise<GetFlowsResponse> {
    const { rev, flows } = revision;
    const format = responseFormatOf(using.context);
    const fields = () => create(GetFlowsResponseSchema, { rev });
    if (format === "http" || !isLong(flows)) {
      // The gateway caches the encoding of frozen messages.
      return this.#short.getOrInsertComputed(revision, () => Object.freeze(lazyResponse(fields(), flows)));
    }
    const known = this.#long.getOrInsertComputed(revision, () => new Map());
    return (
      known.get(format) ??
      encodedResponse(GetFlowsResponseSchema, fields(), flows, using).then((response) => {
        known.set(format, response);
        return response;
      })
    );
  }
}

/** The fields of all responses to deployments. */
export function toSetFlowsResponse(deployed: Deployed) {
  const { revision, rev, outcome, missingTypes, merge } = deployed;
  return {
    rev,
    outcome: outcomes[outcome],
    outcomeMessage: cut(outcomeMessage(deployed) ?? "", maxMessageChars),
    missingTypes: limitToHeader(missingTypes),
    ...(merge !== undefined && { mergedRev: merge.rev, mergedChanges: merge.changes.listed }),
    ...(outcome === "undone" && { undoneRev: revision.rev }),
  } satisfies MessageInitShape<typeof SetFlowsResponseSchema>;
}

/** Percent-encoded, a character takes up to nine. */
const maxMessageChars = 200;

function cut(text: string, maxChars: number): string {
  return text.length > maxChars ? `${text.slice(0, maxChars).toWellFormed()}…` : text;
}

/** Clients and proxies reject responses with more than 4 to 16 KB of headers in total. */
const maxHeaderChars = 2_000;

/** Returns as many of the names as fit into a header with percent-encoded values. */
function limitToHeader(names: readonly string[]): string[] {
  let chars = 0;
  const excess = names.findIndex((name) => {
    chars += encodeURIComponent(name.toWellFormed()).length + ", ".length;
    return chars > maxHeaderChars;
  });
  return names.slice(0, excess === -1 ? undefined : excess);
}

/**
 * Does work in a thread that may end later than the call: the memory that the call has reserved is held until then. Throws if the
 * client has disconnected already.
 */
export async function retainingMemory<T>(
  { values, signal }: Pick<HandlerContext, "values" | "signal">,
  work: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const release = values.get(peerKey).retainMemory?.();
  try {
    return await work();
  } finally {
    release?.();
  }
}

/** Creates a response that `analyze` encodes in a thread, and reserves the memory that it takes until it is sent. */
export async function analyzedResponse<Desc extends DescMessage>(
  desc: Desc,
  context: HandlerContext,
  analyze: (format: ResponseFormat) => Promise<EncodedResponse>,
): Promise<MessageShape<Desc>> {
  const peer = context.values.get(peerKey);
  const format = responseFormatOf(context);
  const { bytes, text } = await retainingMemory(context, async () => {
    const encoded = await analyze(format);
    await peer.reserveDocument?.(encoded.bytes.length + (encoded.text?.length ?? 0));
    return encoded;
  });
  const message = createEncodedMessage(desc, { format, bytes }, () =>
    format === "proto" ? fromBinary(desc, bytes) : fromJsonString(desc, toText(bytes)),
  );
  return text === undefined
    ? message
    : Object.defineProperty(message, "text", { enumerable: true, get: () => toText(text) });
}

function toText(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/**
 * Reads a revision for a response, with the memory that its flows take until that is sent. The active one is in memory anyway. Throws
 * `not_found`.
 */
export async function findRevision(
  store: Pick<FlowStore, "active" | "find" | "findEntry">,
  rev: string,
  { values }: Pick<HandlerContext, "values">,
): Promise<Revision> {
  if (rev !== store.active().rev) {
    const { sizeBytes = 0 } = (await store.findEntry(rev)) ?? {};
    await values.get(peerKey).reserveDocument?.(sizeBytes);
  }
  const revision = await store.find(rev);
  if (revision === undefined) {
    throw revisionNotFound(rev);
  }
  return revision;
}

export function revisionNotFound(rev: string): FlowgateError {
  return new FlowgateError(
    "not_found",
    `there is no revision ${JSON.stringify(rev.slice(0, 64))}; it may have been removed from the history`,
  );
}
