// The process that makes the calls, forked by loader.ts. General clients take more CPU time per call than the measured servers,
// and would be the bottleneck. The clients of this process send bytes that were formatted once, and only check that a
// response has the status and length of the first one.

import { type EventStreams, openEventStreams } from "./events.ts";
import { openGrpcConnection } from "./grpc.ts";
import { openHttp1Connection } from "./http1.ts";
import type { FromLoader, Run, ToLoader } from "./loader.ts";
import type { CallResponse, Connection, ConnectionEvents, Target } from "./target.ts";
import { openWatches, type Watches } from "./watch.ts";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { connect, type IncomingHttpHeaders } from "node:http2";
import { buffer } from "node:stream/consumers";

let connections: Connection[] = [];
let concurrency = 1;
let watches: Watches | undefined;
let eventStreams: EventStreams | undefined;
const idle: ConnectionEvents = { onResponse: () => {}, onFailure: () => {} };
/** The listeners of the current run. */
let events = idle;

async function open(url: string, target: Target): Promise<CallResponse> {
  const response = await fetchOnce(url, target);
  const expected = target.status ?? (target.protocol === "grpc" ? 0 : 200);
  if (response.status !== expected) {
    throw new Error(
      `${target.path}: status ${response.status}, ${Buffer.from(response.body).toString().slice(0, 500)}`,
    );
  }
  const connect = target.protocol === "grpc" ? openGrpcConnection : openHttp1Connection;
  const forward: ConnectionEvents = {
    onResponse: (connection) => events.onResponse(connection),
    onFailure: (error) => events.onFailure(error),
  };
  concurrency = target.callsPerConnection;
  connections = await Promise.all(
    Array.from({ length: target.connections }, () => connect(url, target, response, forward)),
  );
  return response;
}

/** Makes calls for this time, and resolves when all of them have responses. */
async function run(ms: number): Promise<Run> {
  const { promise, resolve, reject } = Promise.withResolvers<Run>();
  let calls = 0;
  let inFlight = 0;
  let isStopping = false;
  const startMs = performance.now();
  const cpuStart = process.cpuUsage();
  const send = (connection: Connection): void => {
    inFlight++;
    connection.call();
  };
  events = {
    onResponse(connection) {
      calls++;
      inFlight--;
      if (!isStopping) {
        send(connection);
      } else if (inFlight === 0) {
        const { user, system } = process.cpuUsage(cpuStart);
        resolve({ calls, ms: performance.now() - startMs, cpuMs: (user + system) / 1000 });
      }
    },
    onFailure: reject,
  };
  const timer = setTimeout(() => {
    isStopping = true;
  }, ms);
  for (const connection of connections) {
    for (let call = 0; call < concurrency; call++) {
      send(connection);
    }
  }
  try {
    return await promise;
  } finally {
    events = idle;
    clearTimeout(timer);
  }
}

function close(): void {
  connections.forEach((connection) => connection.close());
  connections = [];
  watches?.close();
  watches = undefined;
  eventStreams?.close();
  eventStreams = undefined;
}

async function handle(message: ToLoader): Promise<unknown> {
  switch (message.kind) {
    case "open":
      return open(message.url, message.target);
    case "run":
      return run(message.ms);
    case "watch":
      watches = await openWatches(message.url, message.connections, message.streams);
      return undefined;
    case "untilNotified":
      return watches?.untilNotified();
    case "watchEvents":
      eventStreams = await openEventStreams(message.options);
      return undefined;
    case "untilReceived":
      return eventStreams?.untilReceived(message.count);
    case "received":
      return eventStreams?.received;
    case "close":
      return close();
  }
}

process.on("message", (message: ToLoader) => {
  const reply = (value: FromLoader) => process.send?.(value);
  handle(message).then(
    (value) => reply({ value }),
    (error: unknown) => reply({ failure: error instanceof Error ? error.message : String(error) }),
  );
});
process.on("disconnect", () => process.exit());

/** Makes one call with Node's own clients, which validate more of the response than the load clients. */
function fetchOnce(url: string, target: Target): Promise<CallResponse> {
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
