// The process that makes the calls, forked by loader.ts. It takes a core of its own: general clients cost more CPU per
// call than the servers measured here, so that they would be what is measured. These send bytes that were made once,
// and look at no more of an answer than shows that it is the same as the first one.
import { fetchAnswer } from "./answer.ts";
import { openGrpcConnection } from "./grpc.ts";
import { openHttp1Connection } from "./http1.ts";
import type { FromLoader, Run, ToLoader } from "./loader.ts";
import type { Answer, Target } from "./target.ts";
import { openWatches, type Watches } from "./watch.ts";

export interface Connection {
  /** Sends one call more. */
  call(): void;
  close(): void;
}

export type ConnectionEvents = {
  answered(connection: Connection): void;
  /** Nothing is answered any more. */
  failed(error: Error): void;
};

let connections: Connection[] = [];
let concurrency = 1;
let watches: Watches | undefined;
const idle: ConnectionEvents = { answered: () => {}, failed: () => {} };
/** Where what happens to the connections goes: to the run that goes on. */
let events = idle;

async function open(url: string, target: Target): Promise<Answer> {
  const answer = await fetchAnswer(url, target);
  const expected = target.status ?? (target.protocol === "grpc" ? 0 : 200);
  if (answer.status !== expected) {
    throw new Error(`${target.path}: status ${answer.status}, ${Buffer.from(answer.body).toString().slice(0, 500)}`);
  }
  const connect = target.protocol === "grpc" ? openGrpcConnection : openHttp1Connection;
  const forward: ConnectionEvents = {
    answered: (connection) => events.answered(connection),
    failed: (error) => events.failed(error),
  };
  concurrency = target.callsPerConnection;
  connections = await Promise.all(
    Array.from({ length: target.connections }, () => connect(url, target, answer, forward)),
  );
  return answer;
}

/** Ends when each call that was sent in this time has its answer. */
async function run(ms: number): Promise<Run> {
  const { promise, resolve, reject } = Promise.withResolvers<Run>();
  let calls = 0;
  let inFlight = 0;
  let isOver = false;
  const begun = performance.now();
  const cpuBegun = process.cpuUsage();
  const send = (connection: Connection): void => {
    inFlight++;
    connection.call();
  };
  events = {
    answered(connection) {
      calls++;
      inFlight--;
      if (!isOver) {
        send(connection);
      } else if (inFlight === 0) {
        const { user, system } = process.cpuUsage(cpuBegun);
        resolve({ calls, ms: performance.now() - begun, cpuMs: (user + system) / 1000 });
      }
    },
    failed: reject,
  };
  const timer = setTimeout(() => {
    isOver = true;
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
}

async function obey(message: ToLoader): Promise<unknown> {
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
    case "close":
      return close();
  }
}

process.on("message", (message: ToLoader) => {
  const answer = (value: FromLoader) => process.send?.(value);
  obey(message).then(
    (value) => answer({ value }),
    (error: unknown) => answer({ failure: error instanceof Error ? error.message : String(error) }),
  );
});
process.on("disconnect", () => process.exit());
