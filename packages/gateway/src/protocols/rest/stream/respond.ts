import type { DescMethod, Message, Registry } from "@bufbuild/protobuf";
import { addHeaders, type GatewayResponse } from "../../../http/response.ts";
import type { Variant } from "../../../routing/route.ts";
import { encodeUtf8 } from "#platform/bytes";
import { cacheFrozen } from "../../../call/cache-frozen.ts";
import { mapMessages } from "../../../call/invoke.ts";
import type { CallContext } from "../../../call/context.ts";
import type { Deadline } from "../../../call/deadline.ts";
import { streamStatusOf } from "../response/status.ts";
import { createHeaderWriter } from "../response/headers.ts";
import { contentTypeOf, findRawBody, type RawBody, type RawBodyTarget } from "../../../schema/http-body.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import type { CompleteJsonOptions } from "../../../json/json-options.ts";
import { formatJson } from "../../../json/well-formed.ts";
import { createBodyWriter } from "../../../json/write-body.ts";
import { methodRule } from "../../../schema/rules.ts";
import { addVary } from "../../../http/vary.ts";
import { frameMessages, type Chunk } from "./frames.ts";
import { createEventLines, createNegotiator, type Framing, type StreamFormats } from "./framing.ts";
import { openCancellable, type CancellableIterator } from "../../../call/cancellable-iterator.ts";

/** A call whose response messages are to be sent. */
type StreamCall = {
  readonly request: GatewayRequest;
  readonly context: CallContext;
  readonly deadline: Deadline | undefined;
  readonly responses: AsyncIterable<Message>;
  /** Formats an error that occurs after the first message as one line of JSON. `isWrapped`: it is written below a key `error`. */
  readonly formatError: (error: unknown, isWrapped: boolean) => string;
};

/** Resolves when the first message is available; rejects if an error occurs before, which is sent as a regular error response. */
export type RespondStream = (call: StreamCall) => Promise<GatewayResponse>;

export type StreamOptions = StreamFormats & {
  readonly onlyNdjson: boolean;
  readonly registry: Registry;
  readonly jsonOptions: CompleteJsonOptions;
  /** The interval of comments in an event stream while no message is sent, in ms; 0 disables them. */
  readonly heartbeatMs: number;
};

/** The headers of an event stream. nginx would hold back events until its buffer is full. */
const eventHeaders = { "cache-control": "no-cache", "x-accel-buffering": "no" };

/** Compiles the responders of a streaming method, one of which is selected by Accept. Throws a RequestError of status 406 if none is accepted. */
export function createStreamResponder(
  method: DescMethod,
  variant: Variant,
  options: StreamOptions,
): (accept: string | undefined) => RespondStream {
  if (methodRule(method).etag !== "") {
    throw new Error("a stream of responses can't have the option etag");
  }
  const raw = findRawBody(method.output, variant.responseBody);
  if (raw !== undefined) {
    const respond = createRawResponder(method, variant, raw);
    return () => respond;
  }
  const setFields = createHeaderWriter(method.output);
  // Those that the method declares are added to every response, and take precedence.
  const declared = new Set(methodRule(method).headers.map(({ name }) => name.toLowerCase()));
  const ofEvents = Object.entries(eventHeaders).filter(([name]) => !declared.has(name));
  const write = createBodyWriter(
    method.output,
    variant.responseBody,
    options.registry,
    "response",
    options.jsonOptions,
  );
  const negotiate = createNegotiator(options, options.onlyNdjson, createEventLines(method));
  const createEncoder = (framing: Framing, isFirst: boolean): ((message: Message) => Chunk) =>
    cacheFrozen((message) => {
      const text = framing.message(formatJson(write(message)), isFirst, message);
      return Object.isFrozen(message) ? encodeUtf8(text) : text;
    });
  const encoders = new Map<Framing, { first: (message: Message) => Chunk; next: (message: Message) => Chunk }>();
  return (accept) => {
    const framing = negotiate(accept);
    const encode = encoders.get(framing) ?? {
      first: createEncoder(framing, true),
      next: createEncoder(framing, false),
    };
    encoders.set(framing, encode);
    return async ({ request, context, deadline, responses, formatError }) => {
      let firstMessage: Message | undefined;
      // Encoded here, so that a message that can't be encoded is treated like an error of the implementation.
      const chunks = mapMessages(responses, (message) => {
        if (firstMessage !== undefined) {
          return encode.next(message);
        }
        firstMessage = message;
        return encode.first(message);
      });
      const { source, first } = await openStream(chunks, request, deadline);
      const status = streamStatusOf(context, variant);
      const headers = responseHeadersOf(context);
      if (firstMessage !== undefined) {
        setFields(firstMessage, headers);
      }
      headers["content-type"] = framing.mediaType;
      addVary(headers, "Accept");
      if (framing.heartbeat !== undefined) {
        for (const [name, value] of ofEvents) {
          headers[name] ??= value;
        }
      }
      const finish = (error?: unknown): void => context.finish(error);
      if (first === undefined) {
        finish();
        return { status, headers, body: framing.end(true, request.headers) };
      }
      const { heartbeatMs } = options;
      return {
        status,
        headers,
        body: frameMessages({
          framing,
          first,
          rest: source,
          end: framing.end(false, request.headers),
          formatError,
          heartbeatMs,
          finish,
        }),
      };
    };
  };
}

/** Streams the chunks of a raw body. The first one determines the Content-Type; errors can't be represented in the body. */
function createRawResponder(method: DescMethod, variant: Variant, raw: RawBodyTarget): RespondStream {
  const setFields = createHeaderWriter(method.output);
  return async ({ request, context, deadline, responses, formatError }) => {
    let firstChunk: { message: Message; body: RawBody | undefined } | undefined;
    const chunks = mapMessages(responses, (message) => {
      const body = raw.unwrap(message);
      firstChunk ??= { message, body };
      return body?.data ?? new Uint8Array();
    });
    const { source, first } = await openStream(chunks, request, deadline);
    const status = streamStatusOf(context, variant);
    const headers = responseHeadersOf(context);
    if (firstChunk !== undefined) {
      setFields(firstChunk.message, headers);
    }
    headers["content-type"] = contentTypeOf(firstChunk?.body);
    const finish = (error?: unknown): void => {
      if (error !== undefined) {
        // The body can't contain it, but it is mapped and reported.
        formatError(error, false);
      }
      context.finish(error);
    };
    if (first === undefined) {
      finish();
      return { status, headers, body: "" };
    }
    return { status, headers, body: prependChunk(first, source, finish) };
  };
}

async function openStream<T>(
  items: AsyncIterable<T>,
  request: GatewayRequest,
  deadline: Deadline | undefined,
): Promise<{ source: CancellableIterator<T>; first: T | undefined }> {
  const source = openCancellable(items, deadline);
  request.onAbort(() => source.cancel());
  const first = await source.next();
  return { source, first: first.done === true ? undefined : first.value };
}

/** The headers that the implementation set before the first message. */
function responseHeadersOf(context: CallContext): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  const set = context.existingResponseHeader();
  if (set !== undefined) {
    addHeaders(headers, set);
  }
  return headers;
}

/** The body of a raw stream, after its first chunk is available. */
function prependChunk(
  first: Uint8Array,
  rest: CancellableIterator<Uint8Array>,
  finish: (error?: unknown) => void,
): AsyncIterable<Uint8Array> {
  let pending: Uint8Array | undefined = first;
  const iterator: AsyncIterator<Uint8Array> = {
    async next() {
      if (pending !== undefined) {
        const value = pending;
        pending = undefined;
        return { done: false, value };
      }
      try {
        const result = await rest.next();
        if (result.done === true) {
          finish();
          return { done: true, value: undefined };
        }
        return result;
      } catch (error) {
        finish(error);
        throw error;
      }
    },
    async return() {
      rest.cancel();
      finish();
      return { done: true, value: undefined };
    },
  };
  return { [Symbol.asyncIterator]: () => iterator };
}
