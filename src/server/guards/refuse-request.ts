import type { IncomingMessage, ServerResponse } from "node:http";
import { type DescMethod, getOption } from "@bufbuild/protobuf";
import type { ConnectError } from "@connectrpc/connect";
import { encodeEnvelope } from "@connectrpc/connect/protocol";
import { endStreamFlag, endStreamToJson, errorToJson } from "@connectrpc/connect/protocol-connect";
import { setTrailerStatus } from "@connectrpc/connect/protocol-grpc";
import type { FastifyReply, FastifyRequest } from "fastify";
import { http } from "../../../gen/google/api/annotations_pb.ts";
import type { FlowgateError } from "../../errors.ts";
import { exchangeOf } from "../exchange.ts";
import { toConnectError } from "../rpc/connect-error.ts";
import { formatGrpcMessage } from "../rpc/grpc-message.ts";
import { sendRefusal } from "../refusal.ts";

/** The RPCs that are served: by their path, and by method and path of the HTTP API, as in "GET /flows". */
export type RpcPaths = ReadonlyMap<string, DescMethod>;

export function createRpcPaths(methods: readonly DescMethod[]): RpcPaths {
  return new Map(
    methods.flatMap((method) => [
      [`/${method.parent.typeName}/${method.name}`, method] as const,
      ...operationsOf(method).map((operation) => [operation, method] as const),
    ]),
  );
}

/** Those whose path has no variables. */
function operationsOf(method: DescMethod): string[] {
  const rule = getOption(method, http);
  return [rule, ...rule.additionalBindings].flatMap(({ pattern: { case: verb, value } }) =>
    typeof value === "string" ? [`${verb?.toUpperCase()} ${value}`] : [],
  );
}

/**
 * Answers a request that no one has looked at yet, in the shape of its protocol: gRPC and gRPC-Web with a status in
 * the head, a stream of Connect's with its last message, all else with this HTTP status and JSON. Its body stays
 * unread. The error's metadata are headers.
 */
export function refuseRequest(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, error: refusal, rpcs }: { status: number; error: FlowgateError; rpcs: RpcPaths },
): void {
  const error = toConnectError(refusal);
  const path = pathOf(request);
  const rpc = rpcs.get(path);
  const exchange = exchangeOf(request.raw);
  exchange?.fail(error.code);
  if (rpc !== undefined) {
    exchange?.route(rpc);
  } else if (exchange !== undefined) {
    exchange.method = rpcs.get(`${request.method === "HEAD" ? "GET" : request.method} ${path}`);
  }
  const { raw } = reply;
  const { "content-type": type = "" } = request.raw.headers;
  if (hasLongBody(request.raw)) {
    // Node would read it away before the connection can serve the next request.
    raw.shouldKeepAlive = false;
  }
  const connectType = /^application\/connect\+(?:proto|json)(?=\s*(?:;|$))/i.exec(type)?.[0];
  const grpcType = /^application\/grpc(?:-web(?:-text)?)?(?:\+[a-z]+)?/i.exec(type)?.[0];
  if (grpcType !== undefined) {
    sendGrpc(raw, grpcType, error);
  } else if (connectType !== undefined) {
    raw.writeHead(200, { "content-type": connectType });
    raw.end(encodeEnvelope(endStreamFlag, toBytes(endStreamToJson(error.metadata, error, {}))));
  } else if (rpc !== undefined) {
    const body = toBytes(errorToJson(error, {}));
    raw.writeHead(status, {
      ...Object.fromEntries(error.metadata),
      "content-type": "application/json",
      "content-length": body.length,
    });
    raw.end(body);
  } else {
    sendRefusal(raw, status, refusal.message, refusal.headers, refusal.reason);
  }
  reply.hijack();
}

/**
 * The path of the route that a request leads to, however its target spells it: the router decodes. Of the HTTP API,
 * which is one route, the target without its query; there another spelling has none of the exceptions.
 */
export function pathOf(request: FastifyRequest): string {
  const { url = "" } = request.raw;
  const question = url.indexOf("?");
  const path = question === -1 ? url : url.slice(0, question);
  // Fastify makes them anew for each who asks, and a plain path spells its route as it is.
  const route = /[^\w./-]/.test(path) ? request.routeOptions.url : undefined;
  return route === undefined || route.endsWith("*") ? path : route;
}

function sendGrpc(response: ServerResponse, type: string, error: ConnectError): void {
  const headers = setTrailerStatus(new Headers({ "content-type": type }), error);
  headers.set("grpc-message", formatGrpcMessage(error.rawMessage));
  const retryAfter = error.metadata.get("retry-after");
  if (retryAfter !== null) {
    // What clients with a retry policy wait for (gRPC's proposal A6, pushback).
    headers.set("grpc-retry-pushback-ms", String(Number(retryAfter) * 1000));
  }
  // No writeHead: over HTTP/2 it would not say that the head is all, and clients would wait for trailers.
  response.statusCode = 200;
  for (const [name, value] of headers) {
    response.setHeader(name, value);
  }
  response.end();
}

const skippedBytes = 64 * 1024;

function hasLongBody(request: IncomingMessage): boolean {
  if (request.httpVersionMajor !== 1) {
    return false;
  }
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  return length === undefined ? encoding !== undefined : Number(length) > skippedBytes;
}

function toBytes(value: unknown): Uint8Array {
  return Buffer.from(JSON.stringify(value));
}
