import { setTimeout as delay } from "node:timers/promises";
import type { Seen } from "../test/e2e/watch-events.ts";

/** What one client has received, over all its connections. */
export type Reader = {
  readonly protocol: string;
  /** In the order of arrival, without the current state that the first connection starts with. */
  readonly seen: readonly Seen[];
  readonly connections: number;
};

export type Reading = {
  readonly protocol: string;
  /** Opens a stream that continues after an event; undefined: that begins with the current state. */
  readonly open: (after: string | undefined, signal: AbortSignal) => AsyncIterable<Seen>;
  /** Returns after how many milliseconds to disconnect; undefined: never. The reader reconnects whenever its stream ends. */
  readonly leaveAfterMs?: (() => number) | undefined;
  /** Returns after how many milliseconds to reconnect. */
  readonly awayMs?: () => number;
  readonly until: AbortSignal;
};

/** Reads events until the signal, and resumes after the last one whenever it was disconnected. `started` resolves with the current state. */
export function openReader(
  reading: Reading,
): Reader & { readonly started: Promise<void>; readonly ended: Promise<void> } {
  const { protocol, until, awayMs = () => 50 } = reading;
  const { promise: started, resolve: start } = Promise.withResolvers<void>();
  const reader = { protocol, seen: [] as Seen[], connections: 0, after: undefined as string | undefined };
  const ended = (async () => {
    while (!until.aborted) {
      reader.connections += 1;
      await readOnce(reading, reader, start);
      await delay(awayMs());
    }
  })();
  return Object.assign(reader, { started, ended });
}

async function readOnce(
  { open, leaveAfterMs, until }: Reading,
  reader: { readonly seen: Seen[]; after: string | undefined },
  start: () => void,
): Promise<void> {
  const signal = leaveAfterMs === undefined ? until : AbortSignal.any([until, AbortSignal.timeout(leaveAfterMs())]);
  try {
    for await (const each of open(reader.after, signal)) {
      if (reader.after !== undefined) {
        reader.seen.push(each);
      }
      if (reader.after !== undefined || each.kind === "snapshotEnd") {
        reader.after = each.id;
        start();
      }
    }
  } catch {
    // The service was killed, or the signal has ended the connection.
  }
}

/** About the stream, not about what happens. */
const controlKinds: ReadonlySet<string> = new Set(["bookmark", "dropped", "snapshotEnd"]);

/** Describes what is wrong in the events that the readers have received, given the acknowledged revisions in their order. */
export function checkEvents(readers: readonly Reader[], revs: readonly string[]): string[] {
  const contents = new Map<string, string>();
  const ids = new Map<string, string>();
  return readers.flatMap(({ protocol, seen }) => {
    const events = seen.filter(({ kind }) => !controlKinds.has(kind));
    return [
      ...checkOrder(events),
      ...checkIdentity(events, contents, ids),
      ...checkDeployments(events, revs),
      ...checkNumbers(events),
    ].map((violation) => `over ${protocol}: ${violation}`);
  });
}

/** Ids of the same length sort as their positions. */
function checkOrder(events: readonly Seen[]): string[] {
  const wrong = events.find(({ id }, at) => at > 0 && id <= (events[at - 1] as Seen).id);
  return wrong === undefined ? [] : [`the event ${wrong.id} came again, or after a later one`];
}

/** An id is that of one event for all readers, and an event that is unique has one id. */
function checkIdentity(events: readonly Seen[], contents: Map<string, string>, ids: Map<string, string>): string[] {
  const violations = new Set<string>();
  for (const { id, event } of events) {
    const content = JSON.stringify(event);
    if ((contents.get(id) ?? content) !== content) {
      violations.add(`the event ${id} has two contents: ${content} and ${contents.get(id)}`);
    }
    contents.set(id, content);
    const unique = uniqueOf(event);
    if (unique !== undefined && (ids.get(unique) ?? id) !== id) {
      violations.add(`${unique} came as ${id} and as ${ids.get(unique)}`);
    }
    if (unique !== undefined) {
      ids.set(unique, id);
    }
  }
  return [...violations];
}

/** What can be only one event. */
function uniqueOf({ rev, deployment, nodeError }: Seen["event"]): string | undefined {
  const { outcome } = (deployment ?? {}) as { readonly outcome?: string };
  const { message } = (nodeError ?? {}) as { readonly message?: string };
  if (outcome === "pending") {
    return `the pending deployment of ${String(rev)}`;
  }
  return message?.startsWith(numbered) ? `"${message}"` : undefined;
}

/** How messages begin that flows number: `number RUN COUNT`. */
export const numbered = "number ";

/** Each acknowledged deployment has an event, in the order of the acknowledgments. */
function checkDeployments(events: readonly Seen[], revs: readonly string[]): string[] {
  const seen = new Set(events.filter(({ kind }) => kind === "deployment").map(({ event }) => String(event["rev"])));
  const missing = revs.filter((rev) => !seen.has(rev));
  const order = [...seen].filter((rev) => revs.includes(rev));
  const expected = revs.filter((rev) => seen.has(rev));
  return [
    ...(missing.length > 0 ? [`${missing.length} deployments have no event: ${missing.join(", ")}`] : []),
    ...(order.join() === expected.join() ? [] : ["the deployments came in another order"]),
  ];
}

function checkNumbers(events: readonly Seen[]): string[] {
  const last = new Map<string, number>();
  for (const { event } of events) {
    const { message = "" } = (event["nodeError"] ?? {}) as { readonly message?: string };
    if (message.startsWith(numbered)) {
      const [, run = "", count] = message.split(" ");
      if (Number(count) <= (last.get(run) ?? -1)) {
        return [`message ${count} of the run ${run} came after ${last.get(run)}`];
      }
      last.set(run, Number(count));
    }
  }
  return [];
}
