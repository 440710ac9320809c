// Clients, forked by clients.ts.
import { once, setMaxListeners } from "node:events";
import type { Transport } from "@connectrpc/connect";
import { type HttpClient, createStreamReader, transportsOf } from "../../test/e2e/http-client.ts";
import { eventually } from "../../test/e2e/service.ts";
import { parseEvents, readMessages, type Seen, type WatchQuery } from "../../test/e2e/watch-events.ts";
import { createRandom } from "../../test/random.ts";
import { openReader } from "../event-readers.ts";
import { assertOutcome, type Received } from "./check-deliveries.ts";

/** Clients of one protocol: SSE, or that of an RPC. */
export type ClientGroup = { readonly protocol: string; readonly httpClient: HttpClient; readonly streams: number };

export type ClientOptions = {
  readonly groups: readonly ClientGroup[];
  readonly headers: Readonly<Record<string, string>>;
  /** By default all. */
  readonly kinds: readonly string[];
  /** Streams that share a connection, where the version of HTTP permits it. */
  readonly streamsPerConnection: number;
  /** The highest number of events after which every other client disconnects, at random; undefined: none does. */
  readonly leaveWithin: number | undefined;
  readonly seed: number;
};

export type FromClients =
  | { readonly kind: "started" }
  | { readonly kind: "read"; readonly received: readonly Omit<Received, "hasStopped">[] };

/** Sent after the last deployment. */
export type ToClients = { readonly lastRev: string };

type Open = (query: WatchQuery, signal: AbortSignal) => AsyncIterable<Seen>;

const options = JSON.parse(process.argv[2] ?? "") as ClientOptions;
const { groups, headers, kinds, streamsPerConnection, leaveWithin } = options;
const random = createRandom(options.seed);
const until = new AbortController();
setMaxListeners(0, until.signal);
process.once("disconnect", () => process.exit());
const kept = new Map<string, Seen>();

const readers = groups.flatMap((group) => {
  const connections = Array.from({ length: Math.ceil(group.streams / streamsPerConnection) }, () => connect(group));
  return Array.from({ length: group.streams }, (_, at) => {
    const open = connections[Math.floor(at / streamsPerConnection)] as Open;
    const isLeaving = leaveWithin !== undefined && at % 2 === 0;
    return openReader({
      protocol: `${group.protocol} on HTTP/${group.httpClient.httpVersion}`,
      open(after, signal) {
        const query = { kinds, ...(after !== undefined && { after }) };
        const left = new AbortController();
        const events = keep(open(query, AbortSignal.any([signal, left.signal])));
        return isLeaving
          ? leave(events, 1 + leaveWithin * random() ** 3, () => setTimeout(() => left.abort(), 100 * random()))
          : events;
      },
      // Some are away for so long that what they have missed is not in memory any more.
      ...(isLeaving && { awayMs: () => Math.round(20 + 3_000 * random() ** 6) }),
      until: until.signal,
    });
  });
});

await Promise.all(readers.map(({ started }) => started));
send({ kind: "started" });
const [{ lastRev }] = (await once(process, "message")) as [ToClients];
// What is missing is a violation, which the check describes.
await eventually(async () => readers.forEach(({ seen }) => assertOutcome(seen, lastRev)), 120_000).catch(() => {});
until.abort();
send({
  kind: "read",
  received: readers.map(({ protocol, seen, connections }, at) => ({
    client: `client ${at + 1} over ${protocol}`,
    seen,
    connections,
  })),
});

function send(message: FromClients): void {
  process.send?.(message);
}

function connect({ protocol, httpClient }: ClientGroup): Open {
  if (protocol === "SSE") {
    const read = createStreamReader(httpClient);
    return ({ kinds: selected = [], after }, signal) => {
      const query = new URLSearchParams(selected.map((kind) => ["kinds", kind]));
      const own = { ...headers, accept: "text/event-stream", ...(after !== undefined && { "last-event-id": after }) };
      return parseEvents(read(`/events?${query.toString()}`, own, signal));
    };
  }
  const transport = transportsOf(httpClient)[protocol] as Transport;
  return (query, signal) => readMessages(transport, query, headers, signal);
}

/** Keeps one object for each event, and nothing of those that are only there to fill buffers. */
async function* keep(events: AsyncIterable<Seen>): AsyncGenerator<Seen> {
  for await (const { id, kind, event } of events) {
    const seen = { id, kind, event: kind === "deployment" || kind === "dropped" ? event : {} };
    const key = JSON.stringify(seen);
    const known = kept.get(key) ?? seen;
    kept.set(key, known);
    yield known;
  }
}

/** Counts events and not time, so that a slow machine gets as many new connections as a fast one. */
async function* leave(events: AsyncIterable<Seen>, count: number, disconnect: () => void): AsyncGenerator<Seen> {
  let left = Math.floor(count);
  for await (const each of events) {
    left -= 1;
    if (left === 0) {
      disconnect();
    }
    yield each;
  }
}
