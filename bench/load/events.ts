import { once } from "node:events";
import { connect } from "node:net";
import { createCallTemplates, fillTemplate } from "./grpc.ts";
import { flags, frameTypes, openHttp2 } from "./http2.ts";

/** Open streams of the events of deployments. */
export type EventStreams = {
  /** The events that all streams together have received since they have the current state. */
  readonly received: number;
  /** Resolves when that many were received. */
  untilReceived(count: number): Promise<void>;
  close(): void;
};

export type EventStreamsOptions = {
  readonly protocol: "sse" | "grpc";
  readonly url: string;
  readonly authorization: string;
  readonly streams: number;
};

/** The service limits the connections and streams per client address. */
const streamsPerAddress = 100;

/** Resolves when each stream has the current state. */
export async function openEventStreams(options: EventStreamsOptions): Promise<EventStreams> {
  const counter = new Counter(options.streams);
  const open = options.protocol === "sse" ? openSse : openGrpc;
  const groups = Math.ceil(options.streams / streamsPerAddress);
  const opened = await Promise.all(
    Array.from({ length: groups }, (_, at) => open(options, `127.0.0.${2 + at}`, counter)),
  );
  await counter.started;
  return {
    get received() {
      return counter.received;
    },
    untilReceived: (count) => counter.until(count),
    close() {
      counter.isClosing = true;
      opened.forEach((close) => close());
    },
  };
}

class Counter {
  readonly started: Promise<void>;
  received = 0;
  isClosing = false;
  readonly #start: PromiseWithResolvers<void> = Promise.withResolvers();
  #starting: number;
  #awaited: { readonly count: number; readonly resolvers: PromiseWithResolvers<void> } | undefined;

  constructor(streams: number) {
    this.#starting = streams;
    this.started = this.#start.promise;
  }

  /** A stream has the current state. */
  start(): void {
    this.#starting--;
    if (this.#starting === 0) {
      this.#start.resolve();
    }
  }

  add(count: number): void {
    this.received += count;
    if (this.#awaited !== undefined && this.received >= this.#awaited.count) {
      this.#awaited.resolvers.resolve();
    }
  }

  until(count: number): Promise<void> {
    const resolvers = Promise.withResolvers<void>();
    this.#awaited = { count, resolvers };
    this.add(0);
    return resolvers.promise;
  }

  fail(reason: string): void {
    if (!this.isClosing) {
      this.#start.reject(new Error(reason));
      this.#awaited?.resolvers.reject(new Error(reason));
    }
  }
}

/** Each stream on a connection of its own. Returns a function that closes them. */
async function openSse(
  { url, authorization, streams }: EventStreamsOptions,
  localAddress: string,
  counter: Counter,
): Promise<() => void> {
  const { hostname, port, host } = new URL(url);
  const head = `GET /events?kinds=deployment HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${authorization}\r\n`;
  const sockets = await Promise.all(
    Array.from({ length: Math.min(streams, streamsPerAddress) }, async () => {
      let [hasState, status] = [false, ""];
      const socket = connect({ host: hostname, port: Number(port), noDelay: true, localAddress });
      await once(socket, "connect");
      socket.setEncoding("latin1").on("data", (text: string) => {
        status ||= text.slice(0, text.indexOf("\r\n"));
        if (hasState) {
          counter.add(text.split("event: deployment\n").length - 1);
        } else if (text.includes("event: snapshot_end\n")) {
          hasState = true;
          counter.start();
        }
      });
      socket.on("error", ({ message }) => counter.fail(message));
      socket.on("close", () => counter.fail(`a stream has ended: ${status}`));
      socket.write(`${head}Accept: text/event-stream\r\n\r\n`);
      return socket;
    }),
  );
  return () => sockets.forEach((socket) => socket.destroy());
}

/** A WatchEventsRequest for deployments, with its envelope. */
const request = Buffer.from([0, 0, 0, 0, 3, 0x0a, 1, 1]);
/** How an event ends that says that the current state is complete. */
const snapshotEnd = Buffer.from([0xea, 1, 0]);

/** All streams on one connection. */
async function openGrpc(
  { url, authorization, streams }: EventStreamsOptions,
  localAddress: string,
  counter: Counter,
): Promise<() => void> {
  const { first, later } = createCallTemplates(url, {
    path: "/flowgate.v1.EventsService/WatchEvents",
    headers: { "content-type": "application/grpc", te: "trailers", authorization },
    body: request,
  });
  const started = new Set<number>();
  const http2 = await openHttp2(
    url,
    {
      onFrame(type, flag, stream, payload) {
        if ((flag & flags.endStream) !== 0) {
          counter.fail("a stream has ended");
        } else if (type === frameTypes.data && started.has(stream)) {
          counter.add(1);
        } else if (type === frameTypes.data && payload.subarray(-snapshotEnd.length).equals(snapshotEnd)) {
          started.add(stream);
          counter.start();
        }
      },
      onDrained: () => {},
      onFailure: (reason) => counter.fail(reason),
    },
    localAddress,
  );
  for (let each = 0; each < Math.min(streams, streamsPerAddress); each++) {
    const stream = http2.nextStream();
    http2.write(fillTemplate(stream === 1 ? first : later, stream));
  }
  return () => http2.close();
}
