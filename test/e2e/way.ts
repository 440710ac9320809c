import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import http2, { type IncomingHttpHeaders } from "node:http2";
import https from "node:https";
import { text } from "node:stream/consumers";
import type { SecureContextOptions } from "node:tls";
import type { Transport } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";

/** How a client comes to a service: which HTTP it speaks, and whether over TLS. */
export type Way = {
  readonly name: string;
  readonly url: string;
  readonly httpVersion: "1.1" | "2";
  /** For an https URL. */
  readonly tls?: SecureContextOptions;
};

type Asking = {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** The body goes on, but no more of it comes. */
  readonly unfinished?: boolean;
  /** The client's own address. */
  readonly from?: string;
  /** How long it waits for the answer. */
  readonly patienceMs?: number;
};

export type Answer = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly trailers: IncomingHttpHeaders;
  json(): unknown;
};

/** Makes one request on a connection of its own, exactly as told. */
export function ask(way: Way, method: string, path: string, asking: Asking = {}): Promise<Answer> {
  return (way.httpVersion === "2" ? askHttp2 : askHttp1)(way, method, path, asking);
}

async function askHttp1({ url, tls }: Way, method: string, path: string, asking: Asking): Promise<Answer> {
  const { headers, body, unfinished = false, from, patienceMs = 20_000 } = asking;
  const { hostname, port, protocol } = new URL(url);
  const request = (protocol === "https:" ? https : http).request({
    ...tls,
    // Not by its Host, which may be another's.
    servername: "localhost",
    ...(from !== undefined && { localAddress: from }),
    signal: AbortSignal.timeout(patienceMs),
    agent: false,
    hostname,
    port,
    method,
    path,
    headers: { ...(body !== undefined && !unfinished && { "content-length": Buffer.byteLength(body) }), ...headers },
  });
  // Who is answered early need not have sent everything.
  const responded = once(request, "response") as Promise<[IncomingMessage]>;
  if (unfinished) {
    request.write(body);
  } else {
    request.end(body);
  }
  const [response] = await responded;
  request.on("error", () => {});
  const { statusCode: status = 0 } = response;
  const answer = toAnswer(status, response.headers, await text(response), () => response.trailers);
  request.destroy();
  return answer;
}

async function askHttp2({ url, tls }: Way, method: string, path: string, asking: Asking): Promise<Answer> {
  const { headers, body, unfinished = false, from, patienceMs = 20_000 } = asking;
  const session = http2.connect(url, { ...tls, ...(from !== undefined && { localAddress: from }) });
  session.on("error", () => {});
  try {
    const stream = session.request(
      { ":method": method, ":path": path, ...headers },
      { signal: AbortSignal.timeout(patienceMs) },
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
    return toAnswer(Number(response[":status"]), response, await text(stream), () => trailers);
  } finally {
    session.destroy();
  }
}

function toAnswer(
  status: number,
  headers: IncomingHttpHeaders,
  body: string,
  trailers: () => IncomingHttpHeaders,
): Answer {
  return { status, headers, body, trailers: trailers(), json: () => JSON.parse(body) as unknown };
}

/** Every protocol of RPC that goes this way. */
export function transportsOf({ url: baseUrl, httpVersion, tls = {} }: Way): Readonly<Record<string, Transport>> {
  const options = { baseUrl, httpVersion, nodeOptions: tls };
  return {
    "Connect with JSON": createConnectTransport({ ...options, useBinaryFormat: false }),
    Connect: createConnectTransport({ ...options, useBinaryFormat: true }),
    "Connect over GET": createConnectTransport({ ...options, useHttpGet: true }),
    "gRPC-Web": createGrpcWebTransport(options),
    ...(httpVersion === "2" && { gRPC: createGrpcTransport({ baseUrl, nodeOptions: tls }) }),
  };
}
