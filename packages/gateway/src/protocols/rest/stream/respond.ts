import type { DescMethod, Message, Registry } from "@bufbuild/protobuf";
import { addVary, type GatewayResponse } from "../../../http/response.ts";
import type { Variant } from "../../../routing/route.ts";
import { encodeUtf8 } from "#platform/bytes";
import { cacheFrozen } from "../../../call/cache-frozen.ts";
import { type CallContext, setHeadersOf } from "../../../call/context.ts";
import type { Deadline } from "../../../call/deadline.ts";
import { streamStatusOf } from "../response/status.ts";
import { createHeaderWriter } from "../../../json/header-writer.ts";
import { contentTypeOf, findRawBody, type RawBodyTarget } from "../../../schema/http-body.ts";
import type { GatewayRequest } from "../../../http/request.ts";
import type { CompleteJsonOptions } from "../../../json/json-options.ts";
import { formatJson } from "../../../json/well-formed.ts";
import { createBodyWriter } from "../../../json/write-body.ts";
import { methodRule } from "../../../schema/rules.ts";
import { MessageFrames, type Chunk, type MessageFramesOptions } from "./message-frames.ts";
import type { StreamFormats } from "../../../options/options.ts";
import { createEventLines, createNegotiator, type Framing } from "./framing.ts";
import type { OpenStreams } from "../../../call/shutdown.ts";
import { CancellableIterator } from "../../../call/cancellable-iterator.ts";

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

export type StreamResponseOptions = StreamFormats & {
  readonly onlyNdjson: boolean;
  readonly registry: Registry;
  readonly jsonOptions: CompleteJsonOptions;
  /** The interval of comments in an event stream while no message is sent, in ms; 0 disables them. */
  readonly heartbeatMs: number;
  readonly openStreams: OpenStreams;
};

/** The headers of an event stream. nginx would hold back events until its buffer is full. */
const eventHeaders = { "cache-control": "no-cache", "x-accel-buffering": "no" };

/** Compiles the responders of a streaming method, one of which is selected by Accept. Throws a RequestError of status 406 if none is accepted. */
export function createStreamResponder(
  method: DescMethod,
  variant: Variant,
  options: StreamResponseOptions,
): (accept: string | undefined) => RespondStream {
  if (methodRule(method).etag !== "") {
    throw new Error("a stream of responses can't have the option etag");
  }
  const raw = findRawBody(method.output, variant.responseBody);
  if (raw !== undefined) {
    const respond = createRawResponder(method, variant, raw, options.openStreams);
    return () => respond;
  }
  const setFields = createHeaderWriter(method.output);
  // Headers that the method declares are added to every response, and take precedence.
  const declared = new Set(methodRule(method).headers.map(({ name }) => name.toLowerCase()));
  const ofEvents = Object.entries(eventHeaders).filter(([name]) => !declared.has(name));
  const write = createBodyWriter(
    method.output,
    variant.responseBody,
    options.registry,
    "response",
    options.jsonOptions,
  );
  const { heartbeatMs, openStreams } = options;
  const negotiate = createNegotiator(options, options.onlyNdjson, createEventLines(method));
  const createEncoder = (framing: Framing, isFirst: boolean): ((message: Message) => Chunk) =>
    cacheFrozen((message) => {
      const text = framing.message(formatJson(write(message)), isFirst, message);
      return Object.isFrozen(message) ? encodeUtf8(text) : text;
    });
  const encoders = new Map<Framing, MessageFramesOptions["encode"]>();
  const encoderOf = (framing: Framing): MessageFramesOptions["encode"] => {
    let encode = encoders.get(framing);
    if (encode === undefined) {
      const first = createEncoder(framing, true);
      const next = createEncoder(framing, false);
      encode = (message, isFirst) => (isFirst ? first(message) : next(message));
      encoders.set(framing, encode);
    }
    return encode;
  };
  return (accept) => {
    const framing = negotiate(accept);
    const encode = encoderOf(framing);
    return async (call) => {
      const { headers: requestHeaders } = call.request;
      const end = framing.end(false, requestHeaders);
      const { frames, first, status, headers } = await openFrames(call, variant, openStreams, {
        framing,
        encode,
        end,
        heartbeatMs,
      });
      if (first !== undefined) {
        setFields(first, headers);
      }
      headers["content-type"] = framing.mediaType;
      addVary(headers, "Accept");
      if (framing.heartbeat !== undefined) {
        for (const [name, value] of ofEvents) {
          headers[name] ??= value;
        }
      }
      return { status, headers, body: first === undefined ? framing.end(true, requestHeaders) : frames };
    };
  };
}

/** The chunks of a raw body form one document, which can't contain an error. */
const rawChunks: Pick<Framing, "error" | "wrapsErrors" | "heartbeat"> = {
  error: () => "",
  wrapsErrors: false,
  heartbeat: undefined,
};

/** Streams the chunks of a raw body. The first one determines the Content-Type. */
function createRawResponder(
  method: DescMethod,
  variant: Variant,
  raw: RawBodyTarget,
  openStreams: OpenStreams,
): RespondStream {
  const setFields = createHeaderWriter(method.output);
  // A view of its own, since responses take chunks that are the same object to have the same content.
  const encode = (message: Message): Chunk => raw.unwrap(message)?.data.subarray() ?? new Uint8Array();
  const options = { framing: rawChunks, encode, end: "", heartbeatMs: 0 };
  return async (call) => {
    const { frames, first, status, headers } = await openFrames(call, variant, openStreams, options);
    if (first !== undefined) {
      setFields(first, headers);
    }
    headers["content-type"] = contentTypeOf(first && raw.unwrap(first));
    return { status, headers, body: first === undefined ? "" : frames };
  };
}

/** Waits for the first message of a call. Its stream ends when its client disconnects, and at the shutdown. */
async function openFrames(
  { request, context, deadline, responses, formatError }: StreamCall,
  variant: Variant,
  openStreams: OpenStreams,
  options: Omit<MessageFramesOptions, "formatError" | "onEnd">,
) {
  const messages = new CancellableIterator(responses, deadline);
  let unregister = (): void => {};
  const onEnd = (error?: unknown): void => {
    unregister();
    context.finish(error);
  };
  const frames = new MessageFrames(messages, { ...options, formatError, onEnd });
  unregister = openStreams.register((reason) => frames.close(reason));
  request.onAbort(() => void frames.return());
  try {
    await frames.start();
    return { frames, first: frames.first, status: streamStatusOf(context, variant), headers: setHeadersOf(context) };
  } catch (error) {
    unregister();
    messages.cancel();
    throw error;
  }
}
