import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import http2, { type IncomingHttpHeaders } from "node:http2";
import https from "node:https";
import { text } from "node:stream/consumers";
import type { SecureContextOptions } from "node:tls";
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";

/** The URL, the HTTP version and the TLS options with which a client calls a service. */
export type Endpoint = {
  readonly name: string;
  readonly url: string;
  readonly httpVersion: "1.1" | "2";
  /** For an https URL. */
  readonly tls?: SecureContextOptions;
};

type RequestOptions = {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Does not end the body. */
  readonly unfinished?: boolean;
  /** The local address of the client. */
  readonly from?: string;
  /** Defaults to 20 s. */
  readonly timeoutMs?: number;
};

export type EndpointResponse = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: IncomingHttpHeaders;
  json(): unknown;
};

/** Sends one request on a new connection, without additional headers. */
export function sendRequest(
  endpoint: Endpoint,
  method: string,
  path: string,
  options: RequestOptions = {},
): Promise<EndpointResponse> {
  return (endpoint.httpVersion === "2" ? sendHttp2 : sendHttp1)(endpoint, method, path, options);
}

async function sendHttp1(
  { url, tls }: Endpoint,
  method: string,
  path: string,
  options: RequestOptions,
): Promise<EndpointResponse> {
  const { headers, body, unfinished = false, from, timeoutMs = 20_000 } = options;
  const { hostname, port, protocol } = new URL(url);
  const request = (protocol === "https:" ? https : http).request({
    ...tls,
    // Not derived from the Host header, which tests set to other names.
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
  // The response may arrive before the body is sent.
  const responded = once(request, "response") as Promise<[IncomingMessage]>;
  if (unfinished) {
    request.write(body);
  } else {
    request.end(body);
  }
  const [response] = await responded;
  request.on("error", () => {});
  const { statusCode: status = 0 } = response;
  const result = toResponse(status, response.headers, await text(response), () => response.trailers);
  request.destroy();
  return result;
}

async function sendHttp2(
  { url, tls }: Endpoint,
  method: string,
  path: string,
  options: RequestOptions,
): Promise<EndpointResponse> {
  const { headers, body, unfinished = false, from, timeoutMs = 20_000 } = options;
  const session = http2.connect(url, { ...tls, ...(from !== undefined && { localAddress: from }) });
  session.on("error", () => {});
  try {
    const stream = session.request(
      { ":method": method, ":path": path, ...headers },
      { signal: AbortSignal.timeout(timeoutMs) },
    );
    let trailers: IncomingHttpHeaders = {};
    stream.on("trailers", (received) => (trailers = received));
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

function toResponse(
  status: number,
  headers: IncomingHttpHeaders,
  body: string,
  trailers: () => IncomingHttpHeaders,
): EndpointResponse {
  return { status, headers, body, trailers: trailers(), json: () => JSON.parse(body) as unknown };
}

/** Returns a transport for each RPC protocol that the endpoint supports. */
export function transportsOf({ url: baseUrl, httpVersion, tls = {} }: Endpoint): Readonly<Record<string, Transport>> {
  const options = { baseUrl, httpVersion, nodeOptions: tls };
  return {
    "Connect with JSON": createConnectTransport({ ...options, useBinaryFormat: false }),
    Connect: createConnectTransport({ ...options, useBinaryFormat: true }),
    "Connect over GET": createConnectTransport({ ...options, useHttpGet: true }),
    "gRPC-Web": createGrpcWebTransport(options),
    ...(httpVersion === "2" && { gRPC: createGrpcTransport({ baseUrl, nodeOptions: tls }) }),
  };
}
