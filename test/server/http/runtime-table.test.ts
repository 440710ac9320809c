import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { AcceptedConnection } from "../../../src/server/http/connection.ts";
import { createConnectionTable } from "../../../src/server/http/connection-table.ts";
import { type ListenerLimits, listenerDefaults } from "../../../src/server/http/listener-options.ts";
import { SharedTable } from "../../../src/server/http/runtime-share.ts";

beforeEach(() => {
  vi.useFakeTimers();
  // Evenly distributed, and not close to 0 at the beginning.
  let calls = 0;
  vi.spyOn(Math, "random").mockImplementation(() => ((calls += 1) * 0.618) % 1);
});
afterEach(() => void vi.useRealTimers());

type End = "runtime" | "operator";

/** A socket with this end, of which only the events and the reset are used. */
function createSocket(end: End) {
  const events = new EventEmitter();
  const close = (): void => void events.emit("close");
  return Object.assign(events, { end, remoteAddress: "127.0.0.1", resetAndDestroy: close, destroy: close });
}

type FakeSocket = ReturnType<typeof createSocket>;

/** A table that recognises connections by their end. The runtime has exceeded its share already. */
async function openTable({ connections = 100_000, share = 10_000 } = {}) {
  const limited: (keyof ListenerLimits)[] = [];
  const options = {
    ...listenerDefaults,
    createTable: createConnectionTable,
    connections,
    onLimit: (limit: keyof ListenerLimits) => void limited.push(limit),
  };
  const table = new SharedTable(options, {
    share: { connections: share, calls: -1 },
    sockets: {
      isPossible: () => true,
      find: async (sockets) =>
        new Map(
          sockets.filter((socket) => (socket as unknown as FakeSocket).end === "runtime").map((socket) => [socket, 1]),
        ),
    },
    onSurplus() {},
  });
  const admitted: Record<End, number> = { runtime: 0, operator: 0 };
  const connect = (end: End, onAdmitted: (connection: AcceptedConnection) => void = () => {}): FakeSocket => {
    const socket = createSocket(end);
    table.admit(socket as unknown as Socket, (connection) => {
      admitted[end] += 1;
      onAdmitted(connection);
    });
    return socket;
  };
  const first = Promise.withResolvers<AcceptedConnection>();
  connect("runtime", first.resolve);
  const connection = await first.promise;
  // Its share of calls is exceeded by none.
  connection.table.callRejected(connection);
  admitted.runtime = 0;
  return { table, limited, admitted, connect };
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test("new connections of a runtime that has exceeded its share are held, and those of others are not", async () => {
  const { admitted, connect } = await openTable();
  for (let count = 0; count < 20; count += 1) {
    connect("runtime");
  }
  connect("operator");
  await pass(0);
  expect(admitted).toEqual({ runtime: 0, operator: 1 });
  await pass(2_000);
  expect(admitted).toEqual({ runtime: 20, operator: 1 });
});

test("the more connections are held, the longer, so that about 500 are admitted in a second", async () => {
  const { admitted, connect } = await openTable();
  for (let count = 0; count < 5_000; count += 1) {
    connect("runtime");
  }
  // 1,650 are expected.
  await pass(2_000);
  expect(admitted.runtime).toBeGreaterThan(1_300);
  expect(admitted.runtime).toBeLessThan(2_000);
  await pass(18_000);
  expect(admitted.runtime).toBe(5_000);
});

test("connections are no longer held ten seconds after the share was exceeded", async () => {
  const { admitted, connect } = await openTable();
  await pass(10_001);
  connect("runtime");
  await pass(0);
  expect(admitted.runtime).toBe(1);
});

test("a held connection that is closed is not admitted", async () => {
  const { admitted, connect } = await openTable();
  const closed = connect("runtime");
  connect("runtime");
  await pass(0);
  closed.destroy();
  await pass(2_000);
  expect(admitted.runtime).toBe(1);
});

test("held connections count towards the limit of all connections", async () => {
  const { admitted, connect, limited } = await openTable({ connections: 10, share: 1 });
  for (let count = 0; count < 10; count += 1) {
    connect("runtime");
  }
  await pass(0);
  expect([limited, admitted.runtime]).toEqual([[], 0]);
  connect("runtime");
  await pass(0);
  expect([limited, admitted.runtime]).toEqual([[], 1]);
  connect("runtime");
  await pass(0);
  expect([limited, admitted.runtime]).toEqual([["connectionsPerSource"], 1]);
});

test("held connections are reset when the listener closes", async () => {
  const { admitted, connect, table } = await openTable();
  const held = connect("runtime");
  await pass(0);
  const closed = vi.fn<() => void>();
  held.once("close", closed);
  table.close();
  expect(closed).toHaveBeenCalledOnce();
  await pass(2_000);
  expect(admitted.runtime).toBe(0);
});
