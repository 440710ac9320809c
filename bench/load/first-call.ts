import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { buffer } from "node:stream/consumers";
import type { CallResponse, Target } from "./target.ts";

/** Makes one call with Node's own clients, which validate more of the response than the load clients. */
export function fetchOnce(url: string, target: Target): Promise<CallResponse> {
  return target.protocol === "grpc" ? fetchGrpc(url, target) : fetchHttp1(url, target);
}

async function fetchHttp1(url: string, { path, method = "GET", headers, body }: Target): Promise<CallResponse> {
  const sent = request(`${url}${path}`, { method, headers: { ...headers }, agent: false, timeout: 30_000 });
  sent.end(body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, headers: response.headers, body: await buffer(response) };
}

/** `status` is grpc-status, and the body contains the envelope of the message. */
async function fetchGrpc(url: string, { path, headers, body }: Target): Promise<CallResponse> {
  const session = connect(url);
  try {
    const stream = session.request({ ":method": "POST", ":path": path, ...headers });
    stream.end(body);
    let trailers: IncomingHttpHeaders = {};
    stream.on("trailers", (received) => {
      trailers = received;
    });
    const [[received], responseBody] = (await Promise.all([once(stream, "response"), buffer(stream)])) as [
      [IncomingHttpHeaders],
      Buffer,
    ];
    const all = { ...received, ...trailers };
    return { status: Number(all["grpc-status"] ?? Number.NaN), headers: all, body: responseBody };
  } finally {
    session.close();
  }
}
