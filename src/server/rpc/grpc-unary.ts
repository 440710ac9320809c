import { Code, ConnectError } from "@connectrpc/connect";
import type { Compression } from "@connectrpc/connect/protocol";
import type { Message } from "@bufbuild/protobuf";
import { type Answer, type Call, type CallContext, createCallRunner } from "../../transcoding/core.ts";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { Codec } from "./codec.ts";
import { compressedFlag, envelope, envelopeBytes, formatTrailers, readEnvelope } from "./envelope.ts";
import { grpcStatus } from "./grpc-status.ts";
import { compressMinBytes, requestCompression, responseCompression } from "./negotiate.ts";
import { addSetHeaders, createTimeoutReader, type ServeUnary, type UnaryMethod } from "./unary-method.ts";

/** The two protocols differ in where the status goes: into trailers, or into the last frame of the body. */
export type GrpcProtocol = "grpc" | "grpc-web";

/**
 * Serves a unary method over gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) or gRPC-Web
 * (PROTOCOL-WEB.md), with messages in one form.
 */
export function createGrpcUnary(
  { method, invoke, requestGate, failureOf, maxBytes, maxTimeoutMs }: UnaryMethod,
  protocol: GrpcProtocol,
  codec: Codec,
): ServeUnary {
  const contentType = `application/${protocol}+${codec.name}`;
  const isWeb = protocol === "grpc-web";

  const finish = (
    body: Buffer | undefined,
    headers: Answer["headers"],
    status: Readonly<Record<string, string | string[]>>,
  ): Answer => {
    headers["content-type"] = contentType;
    if (!isWeb) {
      return { status: 200, headers, body, trailers: status };
    }
    const trailers = formatTrailers(status);
    return { status: 200, headers, body: body === undefined ? trailers : Buffer.concat([body, trailers]) };
  };

  const succeed = (
    request: RequestContext,
    context: CallContext,
    compression: Compression | undefined,
    message: Message,
  ): Answer | Promise<Answer> => {
    const bytes = codec.encode(message);
    const accepted = responseCompression(request.headers["grpc-accept-encoding"], compression);
    const headers: Answer["headers"] = {};
    const trailers: Answer["headers"] = {};
    addSetHeaders(headers, context.setHeaders());
    addSetHeaders(trailers, context.setTrailers());
    trailers["grpc-status"] = "0";
    context.finish();
    if (accepted === undefined || bytes.length < compressMinBytes) {
      return finish(envelope(0, bytes), headers, trailers);
    }
    headers["grpc-encoding"] = accepted.name;
    return accepted
      .compress(bytes as Uint8Array<ArrayBuffer>)
      .then((compressed) => finish(envelope(compressedFlag, compressed), headers, trailers));
  };

  const call: Call<RequestContext> = ({ request, context }) => {
    const compression = requestCompression(request.headers["grpc-encoding"], "grpc-accept-encoding");
    context.listen();
    const respond = (message: Message): Answer | Promise<Answer> => {
      const invoked = invoke(message, context);
      return invoked instanceof Promise
        ? invoked.then((response) => succeed(request, context, compression, response))
        : succeed(request, context, compression, invoked);
    };
    return request.readBody(maxBytes + envelopeBytes).then((body) => {
      const { flags, data } = readEnvelope(body, maxBytes);
      if ((flags & compressedFlag) === 0) {
        return respond(codec.decode(data));
      }
      if (compression === undefined) {
        throw new ConnectError("a message is compressed, but grpc-encoding names no compression", Code.Internal);
      }
      return compression.decompress(data, maxBytes).then((bytes) => respond(codec.decode(bytes)));
    });
  };

  const run = createCallRunner<RequestContext>(method, {
    name: protocol,
    requestGate,
    readTimeout: createTimeoutReader("grpc-timeout", maxTimeoutMs),
    complete: (_request, answer) => answer,
    failureAnswer(error, { request, context }) {
      const failure = failureOf(error, request, context);
      const headers: Answer["headers"] = {};
      const trailers: Answer["headers"] = {};
      addSetHeaders(headers, context.setHeaders());
      addSetHeaders(trailers, context.setTrailers());
      Object.assign(trailers, grpcStatus(failure));
      return finish(undefined, headers, trailers);
    },
  });
  return (request) => run(call, request, []);
}
