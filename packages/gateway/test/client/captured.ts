import type { DescMethodStreaming, DescMethodUnary, Message, MessageInitShape, DescMessage } from "@bufbuild/protobuf";
import { ConnectError } from "@connectrpc/connect";
import { createRestTransport, type RestTransportOptions } from "../../src/client/index.ts";
import { collect } from "../serve-streams.ts";

/** A request as fetch received it. */
export type Captured = { readonly line: string; readonly headers: Record<string, string>; readonly body: string };

/** A transport whose fetch returns a prepared response, with the requests that it made. */
export function createCapturing(
  respond: (signal: AbortSignal) => Response | Promise<Response> = () => Response.json({}),
  options: Partial<RestTransportOptions> = {},
) {
  const requests: Captured[] = [];
  const transport = createRestTransport({
    baseUrl: "https://api.example",
    ...options,
    async fetch(input, init) {
      const request = new Request(input, init);
      const { pathname, search } = new URL(request.url);
      requests.push({
        line: `${request.method} ${pathname}${search}`,
        headers: Object.fromEntries(request.headers),
        body: await request.text(),
      });
      return respond(request.signal);
    },
  });
  return { transport, requests };
}

export type Capturing = ReturnType<typeof createCapturing>;

/** Makes a unary call. */
export async function callUnary<I extends DescMessage, O extends DescMessage>(
  { transport }: Pick<Capturing, "transport">,
  method: DescMethodUnary<I, O>,
  message: MessageInitShape<I>,
  { headers, timeoutMs, signal }: { headers?: Record<string, string>; timeoutMs?: number; signal?: AbortSignal } = {},
): Promise<Message> {
  return (await transport.unary(method, signal, timeoutMs, headers, message)).message;
}

/** Makes a streaming call, and returns its messages. */
export async function callStream<I extends DescMessage, O extends DescMessage>(
  { transport }: Pick<Capturing, "transport">,
  method: DescMethodStreaming<I, O>,
  messages: Iterable<MessageInitShape<I>>,
): Promise<Message[]> {
  return collect((await transport.stream(method, undefined, undefined, undefined, iterate(messages))).message);
}

// oxlint-disable-next-line typescript/require-await
export async function* iterate<T>(items: Iterable<T>): AsyncGenerator<T> {
  yield* items;
}

/** The ConnectError that a call fails with. */
export async function errorOf(call: Promise<unknown>): Promise<ConnectError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof ConnectError) {
      return error;
    }
    throw error;
  }
  throw new Error("the call did not fail");
}
