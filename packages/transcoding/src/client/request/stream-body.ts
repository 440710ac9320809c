import type { Message, Registry } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import type { Route, Variant } from "../../routing/route.ts";
import { contentTypeOf, findRawBody } from "../../schema/http-body.ts";
import { NDJSON_TYPE } from "../../stream/framing.ts";
import { createJsonWriter } from "./body.ts";

/** How the messages of a client stream are sent. */
export type StreamBodyWriter = {
  /** The Content-Type of a stream that begins with this message. */
  readonly contentTypeOf: (first: Message | undefined) => string;
  /** Encodes one message. */
  readonly encode: (message: Message) => Uint8Array;
};

/** Compiles a client stream: a line of JSON for each message, or the bytes of google.api.HttpBody. */
export function createStreamBodyWriter(route: Route, { body }: Variant, registry: Registry): StreamBodyWriter {
  const raw = findRawBody(route.method.input, body);
  if (raw !== undefined) {
    return {
      contentTypeOf: (first) => contentTypeOf(first && raw.unwrap(first)),
      encode: (message) => raw.unwrap(message)?.data ?? new Uint8Array(),
    };
  }
  const write = createJsonWriter(route, body, registry);
  return { contentTypeOf: () => NDJSON_TYPE, encode: (message) => new TextEncoder().encode(`${write(message)}\n`) };
}

/** Creates a body whose chunks are encoded when fetch asks for them. Cancelling it ends the messages. */
export function createBodyStream(
  messages: AsyncIterator<Message>,
  first: Message | undefined,
  encode: (message: Message) => Uint8Array,
): ReadableStream<Uint8Array> {
  let pending = first;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const result = pending === undefined ? await messages.next() : { done: false as const, value: pending };
        pending = undefined;
        if (result.done === true) {
          controller.close();
          return;
        }
        controller.enqueue(encode(result.value));
      },
      async cancel() {
        await messages.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

let isSupported: boolean | undefined;

/** Throws a ConnectError if this fetch can't send a body as it is made, as in most browsers. */
export function assertStreamingBodies(): void {
  isSupported ??= detectStreamingBodies();
  if (!isSupported) {
    throw new ConnectError("fetch can't stream request bodies here, which a client stream needs", Code.Unimplemented);
  }
}

/** An implementation without them does not read `duplex`, and takes the stream for a string. */
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
