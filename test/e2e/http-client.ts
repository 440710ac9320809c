import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import http2, { type IncomingHttpHeaders } from "node:http2";
import https from "node:https";
import { addAbortSignal } from "node:stream";
import { text } from "node:stream/consumers";
import type { SecureContextOptions } from "node:tls";
import type { Transport } from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
  Http2SessionManager,
} from "@connectrpc/connect-node";

/** How a client connects to a service: its HTTP version, with or without TLS. */
export type HttpClient = {
  readonly name: string;
  readonly url: string;
  readonly httpVersion: "1.1" | "2";
  /** For an https URL. */
  readonly tls?: SecureContextOptions;
};

type RequestOptions = {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Leaves the body unfinished. */
  readonly unfinished?: boolean;
  /** The local address of the client. */
  readonly from?: string;
  /** Timeout for the response. */
  readonly timeoutMs?: number;
};

export type HttpResponse = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: IncomingHttpHeaders;
  json(): unknown;
};

/** Sends one request on a new connection, unchanged. */
export function sendRequest(
  httpClient: HttpClient,
  method: string,
  path: string,
  options: RequestOptions = {},
): Promise<HttpResponse> {
  return (httpClient.httpVersion === "2" ? sendHttp2 : sendHttp1)(httpClient, method, path, options);
}

async function sendHttp1(
  { url, tls }: HttpClient,
  method: string,
  path: string,
  options: RequestOptions,
): Promise<HttpResponse> {
  const { headers, body, unfinished = false, from, timeoutMs = 60_000 } = options;
  const { hostname, port, protocol } = new URL(url);
  const request = (protocol === "https:" ? https : http).request({
    ...tls,
    // Independent of the Host header, which may have another name.
    servername: "localhost",
    ...(from !== undefined && { localAddress: from }),
    signal: AbortSignal.timeout(timeoutMs),
    agent: false,
    hostname,
    port,
    method,
    path,
    headers: { ...(body !== undefined && !unfinished && { "content-length": Buffer.byteLength(body) }), ...headers },
  });
  // The response may arrive before the request is completely sent.
  const responded = once(request, "response") as Promise<[IncomingMessage]>;
  if (unfinished) {
    request.write(body);
  } else {
    request.end(body);
  }
  const [response] = await responded;
  request.on("error", () => {});
  const { statusCode: status = 0 } = response;
  const httpResponse = toResponse(status, response.headers, await text(response), () => response.trailers);
  request.destroy();
  return httpResponse;
}

async function sendHttp2(
  { url, tls }: HttpClient,
  method: string,
  path: string,
  options: RequestOptions,
): Promise<HttpResponse> {
  const { headers, body, unfinished = false, from, timeoutMs = 60_000 } = options;
  const session = http2.connect(url, { ...tls, ...(from !== undefined && { localAddress: from }) });
  session.on("error", () => {});
  try {
    const stream = session.request(
      { ":method": method, ":path": path, ...headers },
      { signal: AbortSignal.timeout(timeoutMs) },
    );
    let trailers: IncomingHttpHeaders = {};
    stream.on("trailers", (given) => (trailers = given));
    const responded = once(stream, "response") as Promise<[IncomingHttpHeaders]>;
    if (unfinished) {
      stream.write(body);
    } else {
      stream.end(body);
    }
    const [response] = await responded;
    return toResponse(Number(response[":status"]), response, await text(stream), () => trailers);
  } finally {
    session.destroy();
  }
}

type ReadStream = (
  path: string,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
) => AsyncGenerator<string>;

/**
 * Returns a function that reads the body of a response, as it arrives, until the iterator returns or the signal is aborted. Over HTTP/2, all
 * share a connection.
 */
export function createStreamReader({ url, tls, httpVersion }: HttpClient): ReadStream {
  if (httpVersion === "2") {
    const sessions = new Http2SessionManager(url, {}, tls);
    return async function* (path, headers, signal) {
      const stream = await sessions.request("GET", path, headers, {});
      yield* addAbortSignal(signal, stream).setEncoding("utf8");
    };
  }
  const { get } = url.startsWith("https:") ? https : http;
  return async function* (path, headers, signal) {
    const request = get(`${url}${path}`, { ...tls, servername: "localhost", agent: false, headers, signal });
    const [response] = (await once(request, "response")) as [IncomingMessage];
    yield* response.setEncoding("utf8");
  };
}

function toResponse(
  status: number,
  headers: IncomingHttpHeaders,
  body: string,
  trailers: () => IncomingHttpHeaders,
): HttpResponse {
  return { status, headers, body, trailers: trailers(), json: () => JSON.parse(body) as unknown };
}

/** A transport for each RPC protocol that the client supports. */
export function transportsOf({ url: baseUrl, httpVersion, tls = {} }: HttpClient): Readonly<Record<string, Transport>> {
  const options = { baseUrl, httpVersion, nodeOptions: tls };
  return {
    "Connect with JSON": createConnectTransport({ ...options, useBinaryFormat: false }),
    Connect: createConnectTransport({ ...options, useBinaryFormat: true }),
    "Connect over GET": createConnectTransport({ ...options, useHttpGet: true }),
    "gRPC-Web": createGrpcWebTransport(options),
    ...(httpVersion === "2" && { gRPC: createGrpcTransport({ baseUrl, nodeOptions: tls }) }),
  };
}
