import type { Message } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { codeToHttpStatus, errorToJson } from "@connectrpc/connect/protocol-connect";
import { FlowgateError } from "../../errors.ts";
import {
  addHeaders,
  type GatewayResponse,
  type PerformCall,
  type CallContext,
  createCallRunner,
  type Invoke,
  withReservation,
} from "@flowgate/gateway/server";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { Codec } from "./codec.ts";
import { type Compression, messageTooLarge } from "./compression.ts";
import { compressMinBytes, requestCompression, responseCompression } from "./negotiate.ts";
import { createTimeoutReader, type RpcMethod, type ServeRpc, setHeadersOf, setTrailersOf } from "./method.ts";

/** The request message as received. */
type EncodedMessage = {
  readonly compression: Compression | undefined;
  readonly bytes: Uint8Array | Promise<Uint8Array>;
};

/** Serves a unary method over Connect (https://connectrpc.com/docs/protocol) by POST, in one message format. */
export function createConnectPost(rpc: RpcMethod, invoke: Invoke, codec: Codec): ServeRpc {
  return createConnectUnary(rpc, invoke, codec, (request) => ({
    compression: requestCompression(request.headers["content-encoding"], "accept-encoding"),
    bytes: request.readBody(rpc.maxBytes),
  }));
}

/** The same by GET, for a method without side effects, with the message in the query. */
export function createConnectGet(rpc: RpcMethod, invoke: Invoke, codec: Codec): ServeRpc {
  return createConnectUnary(rpc, invoke, codec, (request) => {
    const query = queryOf(request);
    const compression = requestCompression(query.get("compression"), "accept-encoding");
    const message = query.get("message") ?? "";
    const bytes = query.get("base64") === "1" ? decodeBase64(message) : Buffer.from(message);
    if (bytes.length > rpc.maxBytes) {
      throw messageTooLarge(rpc.maxBytes);
    }
    return { compression, bytes };
  });
}

export function queryOf({ target }: RequestContext): URLSearchParams {
  const question = target.indexOf("?");
  return new URLSearchParams(question === -1 ? "" : target.slice(question));
}

function decodeBase64(text: string): Uint8Array {
  try {
    return base64Decode(text);
  } catch {
    throw new FlowgateError("invalid_request", "message: must be base64 if base64=1 is set");
  }
}

function createConnectUnary(
  { method, requestGate, failureOf, maxBytes, maxTimeoutMs }: RpcMethod,
  invoke: Invoke,
  codec: Codec,
  read: (request: RequestContext) => EncodedMessage,
): ServeRpc {
  const contentType = `application/${codec.name}`;

  const succeed = (
    request: RequestContext,
    context: CallContext,
    compression: Compression | undefined,
    message: Message,
  ): GatewayResponse | Promise<GatewayResponse> => {
    const bytes = codec.encode(message);
    const headers = headersOf(context);
    headers["content-type"] = contentType;
    context.finish();
    const accepted = responseCompression(request.headers["accept-encoding"], compression);
    if (accepted === undefined || bytes.length < compressMinBytes) {
      return { status: 200, headers, body: asBuffer(bytes) };
    }
    headers["content-encoding"] = accepted.name;
    return codec
      .compress(message, accepted)
      .then((compressed) => ({ status: 200, headers, body: asBuffer(compressed) }));
  };

  const call: PerformCall<RequestContext> = ({ request, context }) => {
    const { compression, bytes } = read(request);
    const respond = (decompressed: Uint8Array): GatewayResponse | Promise<GatewayResponse> => {
      const invoked = invoke(codec.decode(decompressed), context);
      return invoked instanceof Promise
        ? invoked.then((response) => succeed(request, context, compression, response))
        : succeed(request, context, compression, invoked);
    };
    if (compression === undefined && !(bytes instanceof Promise)) {
      return respond(bytes);
    }
    context.observeClient();
    return Promise.resolve(bytes).then((all) =>
      compression === undefined
        ? withReservation(all, request, respond)
        : compression.decompress(all, maxBytes, request).then((message) => withReservation(message, request, respond)),
    );
  };

  const run = createCallRunner<RequestContext>(method, {
    name: "connect",
    requestGate,
    readTimeout: createTimeoutReader("connect-timeout-ms", maxTimeoutMs),
    complete: (_request, response) => response,
    errorResponse(error, { request, context }) {
      const failure = failureOf(error, request, context);
      const headers = headersOf(context);
      addHeaders(headers, failure.metadata);
      headers["content-type"] = "application/json";
      return { status: codeToHttpStatus(failure.code), headers, body: JSON.stringify(errorToJson(failure, {})) };
    },
  });
  return (request) => {
    request.messageFormat = codec.name;
    return run(call, request, []);
  };
}

/** Headers and, with the prefix `trailer-`, trailers: unary Connect responses have no HTTP trailers. */
function headersOf(context: CallContext): GatewayResponse["headers"] {
  const headers = setHeadersOf(context);
  for (const [name, value] of Object.entries(setTrailersOf(context))) {
    headers[`trailer-${name}`] = value;
  }
  return headers;
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
