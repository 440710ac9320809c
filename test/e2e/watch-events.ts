import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { create, toJson } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type Transport } from "@connectrpc/connect";
import {
  EventKind,
  EventSchema,
  EventsService,
  LogLevel,
  WatchEventsRequestSchema,
} from "../../gen/flowgate/v1/events_pb.ts";
import { rpcProtocols } from "./rpc.ts";

/** An event as a client receives it. Names of enums are those of REST. */
export type Seen = { readonly id: string; readonly kind: string; readonly event: Readonly<Record<string, unknown>> };

export type WatchQuery = {
  readonly kinds?: readonly string[];
  readonly tab?: string;
  readonly node?: string;
  readonly level?: string;
  readonly after?: string;
  readonly since?: Date;
};

export type Watch = AsyncDisposable & {
  readonly seen: readonly Seen[];
  /** Resolves with all events so far when there is one that matches. Rejects if the stream ends before. */
  until(matches: (seen: Seen) => boolean): Promise<readonly Seen[]>;
  /** Resolves with the code of the error that has ended the stream. */
  readonly ended: Promise<string>;
};

type Headers = Readonly<Record<string, string>>;

type Open = (url: string, query: WatchQuery, headers: Headers, signal: AbortSignal) => AsyncIterable<Seen>;

const { "Connect over GET": _, ...streaming } = rpcProtocols;

/** All protocols. */
export const watchProtocols: Readonly<Record<string, Open>> = {
  SSE: (...call) => readEvents(...call),
  NDJSON: (...call) => readLines(...call),
  ...Object.fromEntries(
    Object.entries(streaming).map(([name, createTransport]) => [
      name,
      ((url, ...call) => readMessages(createTransport(url), ...call)) satisfies Open,
    ]),
  ),
};

export function watch(open: Open, url: string, query: WatchQuery = {}, headers: Headers = {}): Watch {
  const seen: Seen[] = [];
  const listeners = new Set<() => void>();
  const controller = new AbortController();
  let end: string | undefined;
  const notify = (): void => listeners.forEach((listener) => listener());
  const ended = (async () => {
    try {
      for await (const each of open(url, query, headers, controller.signal)) {
        seen.push(each);
        notify();
      }
      end = "ok";
    } catch (error) {
      end = error instanceof StreamError ? error.code : String(error);
    }
    notify();
    return end;
  })();
  return {
    seen,
    until: (matches) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (seen.some((each) => matches(each))) {
            listeners.delete(look);
            resolve([...seen]);
          } else if (end !== undefined) {
            reject(new Error(`the stream has ended (${end}) after ${JSON.stringify(seen)}`));
          }
        };
        listeners.add(look);
        look();
      }),
    ended,
    async [Symbol.asyncDispose]() {
      controller.abort();
      await ended;
    },
  };
}

/** `code` is the lower-case name of a code of gRPC, or the code of an error over REST. */
class StreamError extends Error {
  readonly code: string;

  constructor(code: string) {
    super(code);
    this.code = code;
  }
}

/** The events of a stream over an RPC protocol. */
export async function* readMessages(
  transport: Transport,
  { kinds = [], level, since, ...query }: WatchQuery,
  headers: Headers,
  signal: AbortSignal,
): AsyncGenerator<Seen> {
  const request = create(WatchEventsRequestSchema, {
    ...query,
    kinds: kinds.map((kind) => EventKind[kind.toUpperCase() as keyof typeof EventKind]),
    ...(level !== undefined && { level: LogLevel[level.toUpperCase() as keyof typeof LogLevel] }),
    ...(since !== undefined && { since: timestampFromDate(since) }),
  });
  async function* requests() {
    yield request;
  }
  try {
    const { message } = await transport.stream(
      EventsService.method.watchEvents,
      signal,
      undefined,
      headers,
      requests(),
      undefined,
    );
    for await (const event of message) {
      yield toSeen(restNames(toJson(EventSchema, event)) as Seen["event"]);
    }
  } catch (error) {
    throw new StreamError(toCode(ConnectError.from(error)));
  }
}

function toCode({ code }: ConnectError): string {
  return Code[code].replaceAll(/(?<=[a-z])[A-Z]/g, (letter) => `_${letter}`).toLowerCase();
}

/** Replaces names of enums by those of REST. */
export function restNames(value: unknown): unknown {
  if (typeof value === "string") {
    return value
      .replace(
        /^(?:DEPLOYMENT_OUTCOME|DEPLOYMENT_TYPE|LOG_LEVEL|RUNTIME_STATE_REASON|HEALTH_STATE|CONDITION_KIND|RUNTIME_STATE|ISOLATION_LEVEL)_(?=[A-Z_]+$)/,
        "\0",
      )
      .replace(/^\0(.*)$/s, (_match, name: string) => name.toLowerCase());
  }
  if (Array.isArray(value)) {
    return value.map((each) => restNames(each));
  }
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, restNames(each)]))
    : value;
}

const envelope = new Set([
  "id",
  "time",
  "runtime",
  "rev",
  "nodeId",
  "nodeType",
  "nodeName",
  "flowId",
  "flowLabel",
  "subflowPath",
]);

function toSeen(event: Seen["event"]): Seen {
  const kind = Object.keys(event).find((name) => !envelope.has(name)) ?? "";
  return { id: String(event["id"]), kind, event };
}

export async function openStream(
  url: string,
  { kinds = [], since, ...query }: WatchQuery,
  headers: Headers,
  signal?: AbortSignal,
): Promise<IncomingMessage> {
  const parameters = new URLSearchParams(kinds.map((kind) => ["kinds", kind]));
  for (const [name, value] of Object.entries({ ...query, ...(since && { since: since.toISOString() }) })) {
    parameters.append(name, value);
  }
  const request = httpRequest(`${url}/events?${parameters.toString()}`, {
    headers,
    agent: false,
    ...(signal && { signal }),
  });
  request.end();
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return response;
}

async function* readText(chunks: AsyncIterable<unknown>, separator: string): AsyncGenerator<string> {
  let text = "";
  try {
    for await (const chunk of chunks) {
      text += String(chunk);
      const parts = text.split(separator);
      text = parts.pop() ?? "";
      yield* parts;
    }
  } catch (error) {
    // The service aborts a response after an error.
    if ((error as NodeJS.ErrnoException).code !== "ECONNRESET") {
      throw error;
    }
  }
}

async function* readEvents(...[url, query, headers, signal]: Parameters<Open>): AsyncGenerator<Seen> {
  const response = await openStream(url, query, { ...headers, accept: "text/event-stream" }, signal);
  yield* parseEvents(response.setEncoding("utf8"));
}

/** The events in the parts of a response over SSE, as they arrive. */
export async function* parseEvents(chunks: AsyncIterable<unknown>): AsyncGenerator<Seen> {
  for await (const part of readText(chunks, "\n\n")) {
    const fields = new Map(part.split("\n").map((line) => line.split(/: (.*)/s, 2) as [string, string]));
    const data = fields.get("data");
    if (data === undefined) {
      // A heartbeat, or the end.
      continue;
    }
    const event = JSON.parse(data) as Seen["event"];
    if (fields.get("event") === "error") {
      throw new StreamError(String(event["code"]));
    }
    const seen = toSeen(event);
    const name = seen.kind.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    if (fields.get("id") !== seen.id || fields.get("event") !== name) {
      throw new Error(`the lines of an event are not those of its data: ${part}`);
    }
    yield seen;
  }
}

async function* readLines(...[url, query, headers, signal]: Parameters<Open>): AsyncGenerator<Seen> {
  const response = await openStream(url, query, { ...headers, accept: "application/x-ndjson" }, signal);
  for await (const line of readText(response.setEncoding("utf8"), "\n")) {
    const event = JSON.parse(line) as Seen["event"] & { readonly error?: { readonly code: string } };
    if (event.error !== undefined) {
      throw new StreamError(event.error.code);
    }
    if (response.statusCode !== 200) {
      throw new StreamError(String(event["code"]));
    }
    yield toSeen(event);
  }
}
