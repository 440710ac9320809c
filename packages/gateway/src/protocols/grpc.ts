import type { Message } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import { concatBytes } from "#platform/bytes";
import { type CallContext, setHeadersOf } from "../call/context.ts";
import { withReservation } from "../call/decompress-in-steps.ts";
import type { Invoke } from "../call/invoke.ts";
import type { PerformCall } from "../call/runner.ts";
import type { GatewayRequest } from "../http/request.ts";
import { addHeaders, type GatewayResponse } from "../http/response.ts";
import type { Codec } from "./rpc/codec.ts";
import {
  type MessageCompression,
  compressMinBytes,
  requestCompression,
  responseCompression,
} from "./rpc/compression.ts";
import { envelopeBytes, openEnvelope } from "./rpc/envelope.ts";
import { addTrailersOf, type EnvelopedProtocol, type RpcMethod, serveCalls, type ServeRpc } from "./rpc/method.ts";

/** gRPC (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md): the status is in HTTP trailers. */
export const grpc: EnvelopedProtocol = {
  name: "grpc",
  encoding: "grpc-encoding",
  acceptEncoding: "grpc-accept-encoding",
  end(context, trailers, error) {
    addGrpcTrailers(context, trailers, error);
    return undefined;
  },
};

export function createGrpcUnary(
  rpc: RpcMethod,
  invoke: Invoke,
  { name, end }: EnvelopedProtocol,
  codec: Codec,
): ServeRpc {
  const { maxBytes } = rpc;
  const contentType = `application/${name}+${codec.name}`;

  const finish = (
    body: Uint8Array | undefined,
    headers: GatewayResponse["headers"],
    context: CallContext,
    error?: ConnectError,
  ): GatewayResponse => {
    headers["content-type"] = contentType;
    const trailers: GatewayResponse["headers"] = {};
    const last = end(context, trailers, error);
    return last === undefined
      ? { status: 200, headers, body, trailers }
      : { status: 200, headers, body: body === undefined ? last : concatBytes([body, last]) };
  };

  const succeed = (
    request: GatewayRequest,
    context: CallContext,
    compression: MessageCompression | undefined,
    message: Message,
  ): GatewayResponse | Promise<GatewayResponse> => {
    const body = codec.envelope(message);
    const headers = setHeadersOf(context);
    context.finish();
    const accepted = responseCompression(request.headers["grpc-accept-encoding"], compression);
    if (accepted === undefined || body.length < envelopeBytes + compressMinBytes) {
      return finish(body, headers, context);
    }
    headers["grpc-encoding"] = accepted.name;
    const bytes = body.subarray(envelopeBytes);
    return codec.compressEnvelope(message, bytes, accepted).then((compressed) => finish(compressed, headers, context));
  };

  const call: PerformCall = ({ request, context }) => {
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

  return serveCalls(rpc, name, codec.name, call, (failure, context) =>
    finish(undefined, setHeadersOf(context), context, failure),
  );
}

/** Adds the trailers of a call: its status, and the trailers that its implementation has set. */
export function addGrpcTrailers(
  context: CallContext,
  trailers: GatewayResponse["headers"],
  error: ConnectError | undefined,
): void {
  addTrailersOf(context, trailers);
  if (error === undefined) {
    trailers["grpc-status"] = "0";
  } else {
    Object.assign(trailers, grpcStatus(error));
  }
}

/** The trailers of an error: grpc-status, message, details, and metadata without reserved names. */
export function grpcStatus(error: ConnectError): GatewayResponse["headers"] {
  const fields: GatewayResponse["headers"] = {};
  // The metadata of an error received from another service may contain any header.
  addHeaders(fields, error.metadata);
  // Lone surrogates can't be encoded in UTF-8.
  const message = error.rawMessage.toWellFormed();
  const plain = new ConnectError(message, error.code, undefined, undefined, error.cause);
  plain.details = error.details;
  for (const [name, value] of setTrailerStatus(new Headers(), plain)) {
    fields[name] = value;
  }
  // Connect escapes more than the protocol specifies, and grpc-js does not unescape that.
  fields["grpc-message"] = formatGrpcMessage(message);
  const retryAfter = error.metadata.get("retry-after");
  if (error.code === Code.Unavailable && retryAfter !== null) {
    // Server pushback for clients with a retry policy (gRPC proposal A6).
    fields["grpc-retry-pushback-ms"] = String(Number(retryAfter) * 1000);
  }
  return fields;
}

/**
 * Formats a text as the value of grpc-message: percent-encodes `%` and everything outside of 0x20 to 0x7E
 * (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, Status-Message).
 */
function formatGrpcMessage(text: string): string {
  return text.replaceAll(/[^\u0020-\u0024\u0026-\u007e]+/gu, (part) => encodeURIComponent(part));
}
