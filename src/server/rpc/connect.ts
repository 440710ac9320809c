import type { ServerResponse } from "node:http";
import { Code, ConnectError, type ContextValues, createConnectRouter } from "@connectrpc/connect";
import type { ConnectRouter, ConnectRouterOptions, Interceptor } from "@connectrpc/connect";
import {
  compressionBrotli,
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { capDeadline } from "./deadline-cap.ts";
import { exchangeOf, traceIdsOf } from "../exchange.ts";
import { formatGrpcMessage } from "./grpc-message.ts";
import { type Gate, internalMessage } from "../interceptors.ts";
import { sendRefusal } from "../refusal.ts";
import { blameClient, checkJson, hasReadableQuery, noteArrival } from "./rpc-faults.ts";

export type RpcOptions = ConnectRouterOptions & {
  requestGate: Gate;
  interceptors: Interceptor[];
  routes: (router: ConnectRouter) => void;
  contextValues: (request: FastifyRequest) => ContextValues;
};

type RpcHandler = ConnectRouter["handlers"][number];

/** Beyond it, Node lets a timer fire at once. */
const longestTimerMs = 2_147_483_647;

/**
 * Serves the RPCs as Connect, gRPC and gRPC-Web. Deadlines longer than maxTimeoutMs are cut to it, and a method may
 * have a readMaxBytes of its own.
 *
 * Stands in for fastifyConnectPlugin of @connectrpc/connect-fastify 2.2, which leaves a request with
 * an unusable Host unanswered and its failures on the console, which resets the connection instead of
 * answering when a body of unknown length exceeds the limit, and whose 405 lacks Allow.
 */
export function registerRpcs(
  app: FastifyInstance,
  { routes, contextValues, requestGate, interceptors, maxTimeoutMs = longestTimerMs, ...rest }: RpcOptions,
  log: Logger,
): void {
  const options: ConnectRouterOptions = {
    acceptCompression: [compressionGzip, compressionBrotli],
    // Kept, one of two bytes would cost a hundred times its size.
    binaryOptions: { readUnknownFields: false },
    ...rest,
    requestGate: blameClient(requestGate),
    interceptors: [...interceptors, noteArrival],
  };
  const router = createConnectRouter(options);
  routes(checkJson(router, options));

  const serve = async (handler: RpcHandler, request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    reply.hijack();
    // Ending the iteration of a request destroys it by default, and with it the connection, before the
    // answer is sent: as for a body of unknown length that exceeds the limit.
    request.raw[Symbol.asyncIterator] = () => request.raw.iterator({ destroyOnReturn: false });
    exchangeOf(request.raw)?.route(handler.method);
    const call = readCall(request, reply, contextValues);
    if (call === undefined) {
      sendRefusal(reply.raw, 400, "the Host header or the request target is no valid part of a URL");
      return;
    }
    if (request.method === "GET" && !hasReadableQuery(request.raw.url ?? "")) {
      sendRefusal(reply.raw, 400, "message: must be base64, as base64=1 says");
      return;
    }
    capDeadline(call.header, maxTimeoutMs);
    try {
      const answer = await handler(call);
      if (answer.body === undefined && answer.status >= 400) {
        refuseCall(handler, answer.status, reply.raw);
      } else {
        await universalResponseToNodeResponse(withPlainMessage(answer), reply.raw);
      }
    } catch (error) {
      breakOff(error, request, reply);
    }
  };

  const breakOff = (error: unknown, { id: requestId, raw: request }: FastifyRequest, { raw }: FastifyReply): void => {
    // The client went away while it was answered.
    if (raw.destroyed || ConnectError.from(error).code === Code.Aborted) {
      raw.destroy();
      return;
    }
    log.error({ requestId, ...traceIdsOf(request), err: error }, "an RPC could not be answered");
    if (raw.headersSent) {
      raw.destroy();
    } else {
      sendRefusal(raw, 500, internalMessage(requestId));
    }
  };

  for (const handler of router.handlers) {
    app.all(handler.requestPath, (request, reply) => {
      void serve(handler, request, reply);
    });
  }
}

type Answer = Awaited<ReturnType<RpcHandler>>;

/**
 * Connect escapes all that a URI component would in grpc-message; the gRPC protocol asks for `%` and bytes
 * outside of 0x20 to 0x7E alone, and grpc-js shows the rest as it came ("flows[0].type%3A").
 */
function withPlainMessage({ body, trailer, ...answer }: Answer): Answer {
  if (body === undefined || trailer === undefined) {
    return { ...answer, ...(body && { body }), ...(trailer && { trailer }) };
  }
  return { ...answer, trailer, body: thenRewrite(body, trailer) };
}

async function* thenRewrite(body: AsyncIterable<Uint8Array>, trailer: Headers): AsyncGenerator<Uint8Array> {
  yield* body;
  const message = trailer.get("grpc-message");
  if (message !== null) {
    trailer.set("grpc-message", formatGrpcMessage(decodeURIComponent(message)));
  }
}

type Call = Parameters<RpcHandler>[0];

function readCall(
  request: FastifyRequest,
  reply: FastifyReply,
  contextValues: RpcOptions["contextValues"],
): Call | undefined {
  const authority = "authority" in request.raw ? request.raw.authority : request.headers.host;
  if (typeof authority !== "string" || !URL.canParse(request.raw.url ?? "", `http://${authority}`)) {
    return undefined;
  }
  return universalRequestFromNodeRequest(request.raw, reply.raw, undefined, contextValues(request));
}

function refuseCall({ allowedMethods }: RpcHandler, status: number, response: ServerResponse): void {
  switch (status) {
    case 405:
      sendRefusal(response, status, `this RPC is called with ${allowedMethods.join(" or ")}`, {
        Allow: allowedMethods.join(", "),
      });
      break;
    case 415:
      sendRefusal(response, status, "the Content-Type is none of Connect, gRPC or gRPC-Web for this kind of RPC");
      break;
    case 505:
      // A client of a bidirectional stream would wait for ever on a connection that is kept.
      response.setHeader("Connection", "close");
      sendRefusal(response, status, "this RPC needs HTTP/2");
      break;
    default:
      sendRefusal(response, status, "the RPC can't be served as it was called");
  }
}
