import type { Message } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { endStreamToJson } from "@connectrpc/connect/protocol-connect";
import {
  type GatewayResponse,
  type PerformCall,
  type CallContext,
  createCallRunner,
  RequestError,
  type InvokeStream,
  iterableOfOne,
  openCancellable,
  withReservation,
} from "@flowgate/gateway/server";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { Codec } from "./codec.ts";
import type { Compression } from "./compression.ts";
import { endStreamFlag, envelope, envelopeBytes, openEnvelope, openEnvelopes } from "./envelope.ts";
import { grpcTrailers, trailersFrame } from "./grpc-trailers.ts";
import { createTimeoutReader, type RpcMethod, type ServeRpc, setHeadersOf } from "./method.ts";
import { requestCompression, responseCompression } from "./negotiate.ts";
import { ResponseFrames } from "./response-frames.ts";

/** How a protocol represents a stream: its headers, and how the stream ends. */
type StreamProtocol = {
  readonly name: "connect" | "grpc" | "grpc-web";
  readonly contentType: string;
  readonly timeout: "grpc-timeout" | "connect-timeout-ms";
  readonly encoding: string;
  readonly acceptEncoding: string;
  /** Returns the last frame, or sets HTTP trailers and returns undefined. */
  readonly end: (
    context: CallContext,
    trailers: Record<string, string | string[]>,
    error: ConnectError | undefined,
  ) => Buffer | undefined;
};

const grpc: Omit<StreamProtocol, "contentType"> = {
  name: "grpc",
  timeout: "grpc-timeout",
  encoding: "grpc-encoding",
  acceptEncoding: "grpc-accept-encoding",
  end(context, trailers, error) {
    Object.assign(trailers, grpcTrailers(context, error));
    return undefined;
  },
};

const protocols: readonly Omit<StreamProtocol, "contentType">[] = [
  grpc,
  { ...grpc, name: "grpc-web", end: (context, _trailers, error) => trailersFrame(grpcTrailers(context, error)) },
  {
    name: "connect",
    timeout: "connect-timeout-ms",
    encoding: "connect-content-encoding",
    acceptEncoding: "connect-accept-encoding",
    end(context, _trailers, error) {
      const end = endStreamToJson(context.existingResponseTrailer() ?? new Headers(), error, {});
      return envelope(endStreamFlag, Buffer.from(JSON.stringify(end)));
    },
  },
];

export type StreamOptions = {
  readonly invoke: InvokeStream;
  /** Server streaming: the request has exactly one message. */
  readonly hasSingleRequest: boolean;
  /** Registers a callback that ends a stream when the server closes. Returns a function that unregisters it. */
  readonly registerStream: (end: () => void) => () => void;
};

/** Serves a streaming method over each protocol, by Content-Type, in one message format. */
export function createStreams(rpc: RpcMethod, options: StreamOptions, codec: Codec): [contentType: string, ServeRpc][] {
  return protocols.flatMap((protocol) => {
    const contentType = `application/${protocol.name}+${codec.name}`;
    const serve = createStream(rpc, options, codec, { ...protocol, contentType });
    const types = codec.name === "proto" && protocol.name !== "connect" ? [`application/${protocol.name}`] : [];
    return [contentType, ...types].map((type): [string, ServeRpc] => [type, serve]);
  });
}

function createStream(
  { method, requestGate, failureOf, maxBytes, maxTimeoutMs }: RpcMethod,
  { invoke, hasSingleRequest, registerStream }: StreamOptions,
  codec: Codec,
  protocol: StreamProtocol,
): ServeRpc {
  const { contentType, end } = protocol;
  const hasTrailers = protocol.name === "grpc";

  const readSingle = async (request: RequestContext, compression: Compression | undefined): Promise<Message> => {
    const body = await request.readBody(maxBytes + envelopeBytes);
    return withReservation(await openEnvelope(body, compression, maxBytes, request), request, codec.decode);
  };

  async function* readStream(request: RequestContext, context: CallContext, compression: Compression | undefined) {
    try {
      for await (const bytes of openEnvelopes(request.streamBody(), compression, maxBytes, request)) {
        yield codec.decode(bytes);
      }
    } catch (error) {
      // Implementations expect a ConnectError.
      throw error instanceof RequestError ? failureOf(error, request, context) : error;
    }
  }

  const call: PerformCall<RequestContext> = async ({ request, context, deadline }) => {
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
    unregister = registerStream(() => frames.close());
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

  const run = createCallRunner<RequestContext>(method, {
    name: protocol.name,
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
  return (request) => {
    request.messageFormat = codec.name;
    return run(call, request, []);
  };
}
