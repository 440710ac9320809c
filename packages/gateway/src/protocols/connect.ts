import type { Message } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import type { ConnectError } from "@connectrpc/connect";
import { codeToHttpStatus, endStreamToJson, errorToJson } from "@connectrpc/connect/protocol-connect";
import { encodeUtf8 } from "#platform/bytes";
import { type CallContext, setHeadersOf } from "../call/context.ts";
import { withReservation } from "../call/decompress-in-steps.ts";
import type { Invoke } from "../call/invoke.ts";
import type { Invocation, PerformCall } from "../call/runner.ts";
import { RequestError } from "../http/request-error.ts";
import type { GatewayRequest } from "../http/request.ts";
import { addHeaders, type GatewayResponse } from "../http/response.ts";
import type { Codec } from "./rpc/codec.ts";
import {
  type MessageCompression,
  compressMinBytes,
  messageTooLarge,
  requestCompression,
  responseCompression,
} from "./rpc/compression.ts";
import { endStreamFlag, envelope } from "./rpc/envelope.ts";
import { addTrailersOf, type EnvelopedProtocol, createRunner, type RpcMethod, type ServeRpc } from "./rpc/method.ts";

/** Streams of the Connect protocol (https://connectrpc.com/docs/protocol): their last envelope has the error and the trailers. */
export const connectStream: EnvelopedProtocol = {
  name: "connect",
  encoding: "connect-content-encoding",
  acceptEncoding: "connect-accept-encoding",
  end: (context, _trailers, error) => endOfStream(context.existingResponseTrailer() ?? new Headers(), error),
};

/** The last envelope of a stream. */
export function endOfStream(trailers: Headers, error: ConnectError | undefined): Uint8Array {
  return envelope(endStreamFlag, encodeUtf8(JSON.stringify(endStreamToJson(trailers, error, {}))));
}

/** The response of a unary method to an error, with its metadata added to the headers. */
export function unaryError(
  status: number,
  error: ConnectError,
  headers: GatewayResponse["headers"] = {},
): GatewayResponse {
  addHeaders(headers, error.metadata);
  headers["content-type"] = "application/json";
  return { status, headers, body: JSON.stringify(errorToJson(error, {})) };
}

type EncodedMessage = {
  readonly compression: MessageCompression | undefined;
  readonly bytes: Uint8Array | Promise<Uint8Array>;
};

export function createConnectPost(rpc: RpcMethod, invoke: Invoke, codec: Codec): ServeRpc {
  const { run, respond } = createConnectUnary(rpc, invoke, codec);
  const call: PerformCall = (invocation) => {
    const { request } = invocation;
    const compression = requestCompression(request.headers["content-encoding"], "accept-encoding");
    return respond(invocation, { compression, bytes: request.readBody(rpc.maxBytes) });
  };
  return (request) => run(call, request, []);
}

/** Serves a unary method over Connect by GET. `query` is the request's. */
export type ServeGet = (request: GatewayRequest, query: URLSearchParams) => ReturnType<ServeRpc>;

/** The same by GET, for a method without side effects, with the message in the query. */
export function createConnectGet(rpc: RpcMethod, invoke: Invoke, codec: Codec): ServeGet {
  const { run, respond } = createConnectUnary(rpc, invoke, codec);
  return (request, query) =>
    run(
      (invocation) => {
        const compression = requestCompression(query.get("compression"), "accept-encoding");
        const message = query.get("message") ?? "";
        const bytes = query.get("base64") === "1" ? decodeBase64(message) : encodeUtf8(message);
        if (bytes.length > rpc.maxBytes) {
          throw messageTooLarge(rpc.maxBytes);
        }
        return respond(invocation, { compression, bytes });
      },
      request,
      [],
    );
}

export function queryOf({ target }: GatewayRequest): URLSearchParams {
  const question = target.indexOf("?");
  return new URLSearchParams(question === -1 ? "" : target.slice(question));
}

function decodeBase64(text: string): Uint8Array {
  try {
    return base64Decode(text);
  } catch {
    throw new RequestError(400, "invalid_request", "message: must be base64 if base64=1 is set");
  }
}

function createConnectUnary(rpc: RpcMethod, invoke: Invoke, codec: Codec) {
  const { maxBytes } = rpc;
  const contentType = `application/${codec.name}`;

  const succeed = (
    request: GatewayRequest,
    context: CallContext,
    compression: MessageCompression | undefined,
    message: Message,
  ): GatewayResponse | Promise<GatewayResponse> => {
    const bytes = codec.encode(message);
    const headers = headersOf(context);
    headers["content-type"] = contentType;
    context.finish();
    const accepted = responseCompression(request.headers["accept-encoding"], compression);
    if (accepted === undefined || bytes.length < compressMinBytes) {
      return { status: 200, headers, body: bytes };
    }
    headers["content-encoding"] = accepted.name;
    return codec.compress(message, bytes, accepted).then((compressed) => ({ status: 200, headers, body: compressed }));
  };

  const respond = (
    { request, context }: Invocation,
    { compression, bytes }: EncodedMessage,
  ): ReturnType<PerformCall> => {
    const call = (decompressed: Uint8Array): GatewayResponse | Promise<GatewayResponse> => {
      const invoked = invoke(codec.decode(decompressed), context);
      return invoked instanceof Promise
        ? invoked.then((response) => succeed(request, context, compression, response))
        : succeed(request, context, compression, invoked);
    };
    if (compression === undefined && !(bytes instanceof Promise)) {
      return call(bytes);
    }
    context.observeClient();
    return Promise.resolve(bytes).then((all) =>
      compression === undefined
        ? withReservation(all, request, call)
        : compression.decompress(all, maxBytes, request).then((message) => withReservation(message, request, call)),
    );
  };

  const run = createRunner(rpc, "connect", codec.name, (failure, context) =>
    unaryError(codeToHttpStatus(failure.code), failure, headersOf(context)),
  );
  return { run, respond };
}

/** Headers and, with the prefix `trailer-`, trailers: unary Connect responses have no HTTP trailers. */
function headersOf(context: CallContext): GatewayResponse["headers"] {
  const headers = setHeadersOf(context);
  const trailers: GatewayResponse["headers"] = {};
  addTrailersOf(context, trailers);
  for (const [name, value] of Object.entries(trailers)) {
    headers[`trailer-${name}`] = value;
  }
  return headers;
}
