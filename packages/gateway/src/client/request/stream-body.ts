import type { Message, Registry } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Route, Variant } from "../../routing/route.ts";
import { contentTypeOf, findRawBody } from "../../schema/http-body.ts";
import { methodRule } from "../../schema/rules.ts";
import { isNdjson, NDJSON_TYPE } from "../../protocols/rest/stream/framing.ts";
import { JSON_TYPE } from "../../http/media-type.ts";
import { createJsonWriter } from "./body.ts";

export type StreamBodyWriter = {
  /** The Content-Type of a stream that begins with this message. */
  readonly contentTypeOf: (first: Message | undefined) => string;
  /** Encodes one message. */
  readonly encode: (message: Message, isFirst: boolean) => Uint8Array;
  /** Encodes the end; undefined if there is nothing after the last message. */
  readonly end: ((isEmpty: boolean) => Uint8Array) | undefined;
};

/**
 * Compiles a client stream: a line of JSON for each message; an array if the method takes JSON but no lines; or the bytes of
 * google.api.HttpBody.
 */
export function createStreamBodyWriter(route: Route, { body }: Variant, registry: Registry): StreamBodyWriter {
  const raw = findRawBody(route.method.input, body);
  if (raw !== undefined) {
    return {
      contentTypeOf: (first) => contentTypeOf(first && raw.unwrap(first)),
      encode: (message) => raw.unwrap(message)?.data ?? new Uint8Array(),
      end: undefined,
    };
  }
  const write = createJsonWriter(route, body, registry);
  const { consumes } = methodRule(route.method);
  const encoder = new TextEncoder();
  if (consumes.includes(JSON_TYPE) && !consumes.some(isNdjson)) {
    return {
      contentTypeOf: () => JSON_TYPE,
      encode: (message, isFirst) => encoder.encode(`${isFirst ? "[" : ","}${write(message)}`),
      end: (isEmpty) => encoder.encode(isEmpty ? "[]" : "]"),
    };
  }
  return {
    contentTypeOf: () => NDJSON_TYPE,
    encode: (message) => encoder.encode(`${write(message)}\n`),
    end: undefined,
  };
}

/** Creates a body whose chunks are encoded when fetch asks for them. Cancelling it ends the messages. */
export function createBodyStream(
  messages: AsyncIterator<Message>,
  first: Message | undefined,
  { encode, end }: Pick<StreamBodyWriter, "encode" | "end">,
): ReadableStream<Uint8Array> {
  let pending = first;
  let isEmpty = true;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const result = pending === undefined ? await messages.next() : { done: false as const, value: pending };
        pending = undefined;
        if (result.done === true) {
          if (end !== undefined) {
            controller.enqueue(end(isEmpty));
          }
          controller.close();
          return;
        }
        controller.enqueue(encode(result.value, isEmpty));
        isEmpty = false;
      },
      async cancel() {
        await messages.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

let isSupported: boolean | undefined;

/** Throws a ConnectError if `fetch` can't stream request bodies, as in most browsers. */
export function assertStreamingBodies(): void {
  isSupported ??= detectStreamingBodies();
  if (!isSupported) {
    throw new ConnectError(
      "fetch can't stream request bodies in this runtime, which a client stream requires",
      Code.Unimplemented,
    );
  }
}

/** An implementation that can't stream request bodies does not read `duplex`, and converts the stream to a string. */
function detectStreamingBodies(): boolean {
  let isRead = false;
  const init = {
    method: "POST",
    body: new ReadableStream(),
    get duplex(): "half" {
      isRead = true;
      return "half";
    },
  };
  return !new Request("http://localhost", init).headers.has("content-type") && isRead;
}
