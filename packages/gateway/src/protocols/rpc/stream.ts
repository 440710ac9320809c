import type { Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { openCancellable } from "../../call/cancellable-iterator.ts";
import type { CallContext } from "../../call/context.ts";
import { withReservation } from "../../call/decompress-in-steps.ts";
import { type InvokeStream, iterableOfOne } from "../../call/invoke.ts";
import { createCallRunner, type PerformCall } from "../../call/runner.ts";
import type { OpenStreams } from "../../call/shutdown.ts";
import { RequestError } from "../../http/request-error.ts";
import type { GatewayRequest } from "../../http/request.ts";
import type { GatewayResponse } from "../../http/response.ts";
import type { Codec } from "./codec.ts";
import { type Compression, requestCompression, responseCompression } from "./compression.ts";
import { envelopeBytes, openEnvelope, openEnvelopes } from "./envelope.ts";
import { createTimeoutReader, type RpcMethod, type ServeRpc, setHeadersOf } from "./method.ts";
import { ResponseFrames } from "./response-frames.ts";

/** How a protocol represents a stream: its headers, and how the stream ends. */
export type StreamProtocol = {
  readonly name: "connect" | "grpc" | "grpc-web";
  readonly timeout: "grpc-timeout" | "connect-timeout-ms";
  readonly encoding: string;
  readonly acceptEncoding: string;
  /** Returns the last frame, or sets HTTP trailers and returns undefined. */
  readonly end: (
    context: CallContext,
    trailers: Record<string, string | string[]>,
    error: ConnectError | undefined,
  ) => Uint8Array | undefined;
};

export type StreamOptions = {
  readonly invoke: InvokeStream;
  /** Server streaming: the request has exactly one message. */
  readonly hasSingleRequest: boolean;
  readonly openStreams: OpenStreams;
};

/** Serves a streaming method over one protocol, in one message format. */
export function createStream(
  { method, requestGate, failureOf, maxBytes, maxTimeoutMs }: RpcMethod,
  { invoke, hasSingleRequest, openStreams }: StreamOptions,
  protocol: StreamProtocol,
  codec: Codec,
): ServeRpc {
  const { end } = protocol;
  const contentType = `application/${protocol.name}+${codec.name}`;
  const hasTrailers = protocol.name === "grpc";

  const readSingle = async (request: GatewayRequest, compression: Compression | undefined): Promise<Message> => {
    const body = await request.readBody(maxBytes + envelopeBytes);
    return withReservation(await openEnvelope(body, compression, maxBytes, request), request, codec.decode);
  };

  async function* readStream(request: GatewayRequest, context: CallContext, compression: Compression | undefined) {
    try {
      for await (const bytes of openEnvelopes(request.streamBody(), compression, maxBytes, request)) {
        yield codec.decode(bytes);
      }
    } catch (error) {
      // Implementations expect a ConnectError.
      throw error instanceof RequestError ? failureOf(error, request, context) : error;
    }
  }

  const call: PerformCall = async ({ request, context, deadline }) => {
    const compression = requestCompression(request.headers[protocol.encoding], protocol.acceptEncoding);
    const accepted = responseCompression(request.headers[protocol.acceptEncoding], compression);
    context.observeClient();
    const messages = hasSingleRequest
      ? iterableOfOne(await readSingle(request, compression))
      : readStream(request, context, compression);
    const trailers: GatewayResponse["headers"] = {};
    let unregister = (): void => {};
    const frames = new ResponseFrames(openCancellable(await invoke(messages, context), deadline), codec, accepted, {
      onEnd(error) {
        unregister();
        const failure = error === undefined ? undefined : failureOf(error, request, context);
        const last = end(context, trailers, failure);
        context.finish(error);
        return last;
      },
      onCancel() {
        unregister();
        context.finish();
      },
    });
    unregister = openStreams.register((reason) => frames.close(reason));
    request.onAbort(() => void frames.return());
    // Implementations may set headers until the first message.
    await frames.start();
    const headers = setHeadersOf(context);
    headers["content-type"] = contentType;
    if (accepted !== undefined) {
      headers[protocol.encoding] = accepted.name;
    }
    return { status: 200, headers, body: frames, ...(hasTrailers && { trailers }) };
  };

  const run = createCallRunner(method, {
    name: protocol.name,
    format: codec.name,
    requestGate,
    readTimeout: createTimeoutReader(protocol.timeout, maxTimeoutMs),
    complete: (_request, response) => response,
    errorResponse(error, { request, context }) {
      const trailers: GatewayResponse["headers"] = {};
      const body = end(context, trailers, failureOf(error, request, context));
      const headers = setHeadersOf(context);
      headers["content-type"] = contentType;
      return { status: 200, headers, body, ...(hasTrailers && { trailers }) };
    },
  });
  return (request) => run(call, request, []);
}
