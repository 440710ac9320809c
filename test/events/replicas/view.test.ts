import { setImmediate } from "node:timers/promises";
import { createClient, createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import { pino } from "pino";
import { expect, test } from "vitest";
import { ReplicasService } from "../../../gen/flowgate/replicas/v1/replicas_pb.ts";
import { type Event, LogLevel } from "../../../gen/flowgate/v1/events_pb.ts";
import { eventCases } from "../../../src/events/events.ts";
import { EventHub } from "../../../src/events/hub.ts";
import { parsePosition } from "../../../src/events/position.ts";
import { ReplicaView } from "../../../src/events/replicas/view.ts";
import { replicasService } from "../../../src/services/replicas.ts";
import type { Replica } from "../../../src/store/cluster.ts";

const keys = () => [Buffer.alloc(32, 1)];

type Service = ServiceImpl<typeof ReplicasService>;

function replica(name: string): Replica {
  const status = { name, version: "1", mode: "each", state: "running", run: undefined } as const;
  return { ...status, id: name, isSelf: false, seenMsAgo: 0 };
}

type ViewSettings = {
  readonly isProof?: boolean;
  readonly waitMs?: number;
  /** What the journal has. */
  readonly recorded?: readonly Event[];
  /** The ids of the replicas that are there at first. */
  readonly listed?: readonly string[];
};

/** A view of the hub with these other replicas. */
function openView(hub: EventHub, others: Record<string, Service>, settings: ViewSettings = {}) {
  const { isProof = true, waitMs = 5_000, recorded = [], listed = Object.keys(others) } = settings;
  return new ReplicaView(
    {
      hub,
      journal: {
        list: async (_, { afterSeq = 0 }) => ({
          events: recorded.filter(({ id }) => parsePosition(id, "id") > afterSeq),
          next: undefined,
        }),
      },
      log: pino({ level: "silent" }),
      sinceSeq: 0,
      waitMs,
      connect: async ({ id }) => ({
        client: createClient(
          ReplicasService,
          createRouterTransport(({ service }) => void service(ReplicasService, others[id] as Service)),
        ),
        authorize: () => "x",
        isProof: () => isProof,
        [Symbol.dispose]() {},
      }),
    },
    listed.map((name) => replica(name)),
  );
}

function createHub(runtime: string, aheadMs = 0): EventHub {
  return new EventHub({ runtime, lastSeq: 0, now: () => Date.now() + aheadMs });
}

function publish(hub: EventHub, message: string): Event {
  return hub.publish({ kind: { case: "log", value: { level: LogLevel.INFO, message } } });
}

async function take(events: AsyncIterator<Event>, count: number): Promise<Event[]> {
  const taken: Event[] = [];
  while (taken.length < count) {
    const { value } = (await events.next()) as { value: Event };
    taken.push(value);
  }
  return taken;
}

function describe({ kind, runtime }: Event): string {
  return kind.case === "log" ? kind.value.message : `${kind.case} ${runtime}`;
}

test("events are in the order of their positions, also if a replica's clock is behind", async () => {
  const [own, late] = [createHub("a"), createHub("b", -5_000)];
  using view = openView(own, { b: replicasService({ hub: late, keys }) });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  const published = [publish(own, "1"), publish(own, "2")];
  const first = await take(stream, 2);
  published.push(publish(late, "3"));
  const third = await take(stream, 1);
  published.push(publish(own, "4"), publish(late, "5"));
  const events = [...first, ...third, ...(await take(stream, 2))];
  expect(events.map(({ id }) => id)).toEqual(events.map(({ id }) => id).toSorted());
  expect(events.map((event) => describe(event)).toSorted()).toEqual(["1", "2", "3", "4", "5"]);
  expect(events.map(({ id }) => id).toSorted()).toEqual(published.map(({ id }) => id).toSorted());
});

test("what others have published before is there when the view is ready, and their states", async () => {
  // Before the view is opened, also by the clock.
  const [own, other] = [createHub("a", -5_000), createHub("b", -5_000)];
  publish(other, "1");
  publish(own, "2");
  other.publish({ kind: { case: "runtimeState", value: { message: "state" } } });
  using view = openView(own, { b: replicasService({ hub: other, keys }) });
  await view.ready;
  const known = view.between(0, view.lastSeq).map(({ event }) => describe(event));
  // Those of the same millisecond are in any order.
  expect(known.toSorted()).toEqual(["1", "2", "runtimeState b"]);
  expect(view.states().map(({ runtime }) => runtime)).toEqual(["b"]);
  expect(view.missing()).toEqual([]);
});

test("debug messages are received while a stream wants them, without a gap in the others", async () => {
  const [own, other] = [createHub("a"), createHub("b")];
  const demand: boolean[] = [];
  other.onDemand(() => void demand.push(other.wants("debug")));
  using view = openView(own, { b: replicasService({ hub: other, keys }) });
  await view.ready;
  const logs = view.watch({ cases: new Set(["log"]) });
  publish(other, "1");
  expect((await take(logs, 1)).map((event) => describe(event))).toEqual(["1"]);
  expect(demand).not.toContain(true);
  const all = view.watch({ cases: eventCases });
  publish(other, "2");
  expect((await take(all, 1)).map((event) => describe(event))).toEqual(["2"]);
  expect(demand.at(-1)).toBe(true);
  await all.return();
  publish(other, "3");
  expect((await take(logs, 2)).map((event) => describe(event))).toEqual(["2", "3"]);
  expect(demand.at(-1)).toBe(false);
  expect(view.missing()).toEqual([]);
});

test("events that others have from a replica are not sent to a third one", async () => {
  const [a, b, c] = [createHub("a"), createHub("b"), createHub("c")];
  using viewOfB = openView(b, { c: replicasService({ hub: c, keys }) });
  await viewOfB.ready;
  using view = openView(a, { b: replicasService({ hub: b, keys }), c: replicasService({ hub: c, keys }) });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  publish(c, "1");
  publish(b, "2");
  expect((await take(stream, 2)).map((event) => describe(event)).toSorted()).toEqual(["1", "2"]);
});

/** A replica that sends a start, and then nothing. */
const stalled: Service = {
  async *watchReplica({ after }, { signal }) {
    yield { message: { case: "start", value: { after, proof: "" } } } as const;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
  },
  confirmPosition: () => new Promise(() => {}),
};

test("a replica that confirms nothing is named, and is not waited for", async () => {
  const own = createHub("a");
  using view = openView(own, { b: stalled }, { waitMs: 20 });
  await view.ready;
  expect(view.missing().map((event) => describe(event))).toEqual(["dropped b"]);
  const stream = view.watch({ cases: eventCases });
  publish(own, "1");
  const events = await take(stream, 1);
  expect(events.map((event) => describe(event))).toEqual(["1"]);
});

test("after a pause of this process, the others have time to confirm", async () => {
  const [own, other] = [createHub("a"), createHub("b")];
  const { confirmPosition, ...service } = replicasService({ hub: other, keys });
  const overNetwork: Service["confirmPosition"] = async (...call) => {
    await setImmediate();
    return confirmPosition(...call);
  };
  using view = openView(own, { b: { ...service, confirmPosition: overNetwork } }, { waitMs: 50 });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  publish(own, "1");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  expect((await take(stream, 1)).map((event) => describe(event))).toEqual(["1"]);
  expect(view.missing()).toEqual([]);
});

test("a stream that does not prove the secret is not read", async () => {
  const [own, other] = [createHub("a"), createHub("b")];
  publish(other, "1");
  using view = openView(own, { b: replicasService({ hub: other, keys }) }, { isProof: false });
  await view.ready;
  expect(view.missing().map((event) => describe(event))).toEqual(["dropped b"]);
  expect(view.between(0, view.lastSeq)).toEqual([]);
});

/** The service of a replica that can be killed, and go on. */
function createReplica(hub: EventHub) {
  let killed = new AbortController();
  const { watchReplica, ...service } = replicasService({ hub, keys });
  const served: Service = {
    ...service,
    async *watchReplica(request, context) {
      const { signal } = killed;
      signal.throwIfAborted();
      yield* watchReplica(request, { ...context, signal: AbortSignal.any([context.signal, signal]) });
      signal.throwIfAborted();
    },
  };
  return {
    served,
    kill: () => killed.abort(),
    continue: () => {
      killed = new AbortController();
    },
  };
}

test("events of a killed replica are there once, whether it has sent or only recorded them", async () => {
  const [own, first, second] = [createHub("a"), createHub("b"), createHub("b")];
  const [b1, b2] = [createReplica(first), createReplica(second)];
  const recorded: Event[] = [];
  using view = openView(own, { b1: b1.served, b2: b2.served }, { recorded, listed: [] });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  const seen = async (count: number): Promise<string[]> =>
    (await take(stream, count)).map((event) => describe(event)).toSorted();

  view.update([{ ...replica("b1"), name: "b" }]);
  recorded.push(publish(first, "sent"));
  expect(await seen(1)).toEqual(["sent"]);
  recorded.push(publish(createHub("b", 1_000), "recorded only"));
  b1.kill();
  expect(await seen(2)).toEqual(["dropped b", "recorded only"]);

  // Its successor is killed before it is forgotten.
  view.update(["b1", "b2"].map((id) => ({ ...replica(id), name: "b" })));
  recorded.push(publish(second, "sent by the successor"));
  expect(await seen(1)).toEqual(["sent by the successor"]);
  b2.kill();
  expect(await seen(1)).toEqual(["dropped b"]);
  view.update([{ ...replica("b2"), name: "b" }]);
  view.update([]);
  await setImmediate();
  publish(own, "after them");
  expect(await seen(1)).toEqual(["after them"]);
});

test("a replica that is paused for so long that it is not listed is named, and sends its events once", async () => {
  const [own, other] = [createHub("a"), createHub("b")];
  const recorded: Event[] = [];
  const b = createReplica(other);
  using view = openView(own, { b: b.served }, { recorded });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  const seen = async (count: number): Promise<string[]> => (await take(stream, count)).map((event) => describe(event));
  recorded.push(publish(other, "1"));
  expect(await seen(1)).toEqual(["1"]);
  b.kill();
  expect(await seen(1)).toEqual(["dropped b"]);
  recorded.push(publish(other, "2"));
  view.update([]);
  expect(await seen(1)).toEqual(["2"]);
  b.continue();
  view.update([replica("b")]);
  publish(other, "3");
  expect(await seen(1)).toEqual(["3"]);
  publish(own, "4");
  expect(await seen(1)).toEqual(["4"]);
});

test("a replica that sends its events while it is not listed is not named, until it ends", async () => {
  const [own, other] = [createHub("a"), createHub("b")];
  const b = createReplica(other);
  using view = openView(own, { b: b.served });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  view.update([]);
  publish(other, "1");
  publish(own, "2");
  expect((await take(stream, 2)).map((event) => describe(event)).toSorted()).toEqual(["1", "2"]);
  expect(view.missing()).toEqual([]);
  b.kill();
  expect((await take(stream, 1)).map((event) => describe(event))).toEqual(["dropped b"]);
  expect(view.missing()).toEqual([]);
  view.update([]);
  publish(own, "3");
  expect((await take(stream, 1)).map((event) => describe(event))).toEqual(["3"]);
});

test("the states of a replica that goes on are known, also if their events were in the journal before", async () => {
  const [own, other] = [createHub("a"), createHub("b")];
  const recorded: Event[] = [];
  const b = createReplica(other);
  using view = openView(own, { b: b.served }, { recorded });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  recorded.push(other.publish({ kind: { case: "runtimeState", value: { message: "state" } } }));
  b.kill();
  const before = await take(stream, 2);
  expect(before.map((event) => describe(event)).toSorted()).toEqual(["dropped b", "runtimeState b"]);
  b.continue();
  publish(other, "1");
  expect((await take(stream, 1)).map((event) => describe(event))).toEqual(["1"]);
  expect(view.states()).toEqual(recorded);
});

test("the states of a replica are known, or are said to be missing, while a stream that has started sends them", async () => {
  const [own, other] = [createHub("a"), createHub("b")];
  const state = other.publish({ kind: { case: "runtimeState", value: { message: "state" } } });
  const b = createReplica(other);
  let started = () => {};
  let sent = Promise.resolve();
  const slow: Service = {
    ...b.served,
    async *watchReplica(request, context) {
      for await (const response of b.served.watchReplica(request, context)) {
        yield response;
        started();
        await sent;
      }
    },
  };
  using view = openView(own, { b: slow });
  await view.ready;
  const stream = view.watch({ cases: eventCases.difference(new Set(["debug"])) });
  /** Resolves when a stream has started, and sends nothing more until `send` is called. */
  const untilStart = () => {
    const [start, sending] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    [started, sent] = [start.resolve, sending.promise];
    return { start: start.promise.then(() => setImmediate()), send: sending.resolve };
  };

  const changed = untilStart();
  const debug = view.watch({ cases: eventCases });
  await changed.start;
  expect({ states: view.states(), missing: view.missing() }).toEqual({ states: [state], missing: [] });
  changed.send();
  publish(other, "1");
  await take(debug, 1);
  expect(view.states()).toEqual([state]);

  b.kill();
  const again = untilStart();
  b.continue();
  await again.start;
  expect(view.missing().map((event) => describe(event))).toEqual(["dropped b"]);
  again.send();
  publish(other, "2");
  expect((await take(stream, 3)).map((event) => describe(event))).toEqual(["1", "dropped b", "2"]);
  expect({ states: view.states(), missing: view.missing() }).toEqual({ states: [state], missing: [] });
});

test("what the journal has of a lost replica comes after the events before it that still wait for other replicas", async () => {
  const [own, lost, slow] = [createHub("a"), createHub("b"), createHub("c")];
  const b = createReplica(lost);
  const c = replicasService({ hub: slow, keys });
  let confirmed = Promise.resolve();
  const confirmPosition: Service["confirmPosition"] = async (...call) => {
    await confirmed;
    return c.confirmPosition(...call);
  };
  const recorded: Event[] = [];
  using view = openView(own, { b: b.served, c: { ...c, confirmPosition } }, { recorded });
  await view.ready;
  const stream = view.watch({ cases: eventCases });
  const { promise, resolve } = Promise.withResolvers<void>();
  confirmed = promise;
  publish(own, "1");
  recorded.push(publish(createHub("b", 1_000), "2"));
  b.kill();
  expect((await take(stream, 1)).map((event) => describe(event))).toEqual(["dropped b"]);
  await setImmediate();
  resolve();
  expect((await take(stream, 2)).map((event) => describe(event))).toEqual(["1", "2"]);
});

test("what is missing when a view begins does not follow, since the journal has it for readers that start before", async () => {
  const [own, gone, paused] = [createHub("a"), createHub("b", -1_000), createHub("c", -1_000)];
  const recorded = [publish(gone, "of a replica that was killed"), publish(paused, "of one that is paused")];
  const [b, c] = [createReplica(gone), createReplica(paused)];
  b.kill();
  c.kill();
  using view = openView(own, { b: b.served, c: c.served }, { recorded });
  await view.ready;
  const stream = view.watch({ cases: eventCases }, { afterSeq: 0 });
  c.continue();
  view.update([replica("c")]);
  await setImmediate();
  paused.advance(view.lastSeq);
  publish(paused, "new");
  expect((await take(stream, 1)).map((event) => describe(event))).toEqual(["new"]);
  expect(view.hasAllAfter(0)).toBe(false);
});
