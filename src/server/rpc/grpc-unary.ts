import type { Message } from "@bufbuild/protobuf";
import {
  type GatewayResponse,
  type PerformCall,
  type CallContext,
  createCallRunner,
  type Invoke,
  withReservation,
} from "@flowgate/gateway/server";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { Codec } from "./codec.ts";
import type { Compression } from "./compression.ts";
import { envelopeBytes, openEnvelope } from "./envelope.ts";
import { grpcTrailers, trailersFrame } from "./grpc-trailers.ts";
import { createTimeoutReader, type RpcMethod, type ServeRpc, setHeadersOf } from "./method.ts";
import { compressMinBytes, requestCompression, responseCompression } from "./negotiate.ts";

/**
 * Serves a unary method over gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) or gRPC-Web
 * (PROTOCOL-WEB.md), in one message format.
 */
export function createGrpcUnary(
  { method, requestGate, failureOf, maxBytes, maxTimeoutMs }: RpcMethod,
  invoke: Invoke,
  protocol: "grpc" | "grpc-web",
  codec: Codec,
): ServeRpc {
  const contentType = `application/${protocol}+${codec.name}`;
  const isWeb = protocol === "grpc-web";

  const finish = (
    body: Buffer | undefined,
    headers: GatewayResponse["headers"],
    trailers: GatewayResponse["headers"],
  ): GatewayResponse => {
    headers["content-type"] = contentType;
    if (!isWeb) {
      return { status: 200, headers, body, trailers };
    }
    const frame = trailersFrame(trailers);
    return { status: 200, headers, body: body === undefined ? frame : Buffer.concat([body, frame]) };
  };

  const succeed = (
    request: RequestContext,
    context: CallContext,
    compression: Compression | undefined,
    message: Message,
  ): GatewayResponse | Promise<GatewayResponse> => {
    const body = codec.envelope(message);
    const headers = setHeadersOf(context);
    const trailers = grpcTrailers(context, undefined);
    context.finish();
    const accepted = responseCompression(request.headers["grpc-accept-encoding"], compression);
    if (accepted === undefined || body.length < envelopeBytes + compressMinBytes) {
      return finish(body, headers, trailers);
    }
    headers["grpc-encoding"] = accepted.name;
    return codec.compressEnvelope(message, accepted).then((compressed) => finish(compressed, headers, trailers));
  };

  const call: PerformCall<RequestContext> = ({ request, context }) => {
    const compression = requestCompression(request.headers["grpc-encoding"], "grpc-accept-encoding");
    context.observeClient();
    const respond = (bytes: Uint8Array): GatewayResponse | Promise<GatewayResponse> => {
      const invoked = invoke(codec.decode(bytes), context);
      return invoked instanceof Promise
        ? invoked.then((response) => succeed(request, context, compression, response))
        : succeed(request, context, compression, invoked);
    };
    return request.readBody(maxBytes + envelopeBytes).then((body) => {
      const bytes = openEnvelope(body, compression, maxBytes, request);
      return bytes instanceof Promise
        ? bytes.then((message) => withReservation(message, request, respond))
        : withReservation(bytes, request, respond);
    });
  };

  const run = createCallRunner<RequestContext>(method, {
    name: protocol,
    requestGate,
    readTimeout: createTimeoutReader("grpc-timeout", maxTimeoutMs),
    complete: (_request, response) => response,
    errorResponse(error, { request, context }) {
      const failure = failureOf(error, request, context);
      return finish(undefined, setHeadersOf(context), grpcTrailers(context, failure));
    },
  });
  return (request) => {
    request.messageFormat = codec.name;
    return run(call, request, []);
  };
}
