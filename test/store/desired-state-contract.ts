import { expect, test } from "vitest";
import type { AuditRecord } from "../../src/store/audit-store.ts";
import type { StoreLocation } from "./contract.ts";

const origin = { by: "ada", address: "10.0.0.1", protocol: "rest", requestId: "r-1" };
const stop: AuditRecord = { kind: "flows_stopped", origin, subject: "a revision" };
const start: AuditRecord = { kind: "flows_started", origin: { ...origin, by: undefined }, subject: "a revision" };

/** The contract of `DesiredStateStore`. */
export function desiredStateContract(createLocation: () => Promise<StoreLocation>): void {
  test("the flows are to run in a new store, and nobody has started them", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    expect(store.desired.current()).toEqual({ isStarted: true, by: undefined, atMs: undefined });
  });

  test("a change is known with who made it and when, reported once, and kept", async () => {
    await using location = await createLocation();
    {
      await using store = await location.open();
      const reported: boolean[] = [];
      using _ = store.desired.onChange(() => reported.push(store.desired.current().isStarted));
      const stopped = await store.desired.set(false, stop);
      expect(stopped).toEqual({ isStarted: false, by: "ada", atMs: expect.any(Number) });
      expect(Math.abs(Date.now() - (stopped.atMs ?? 0))).toBeLessThan(60_000);
      expect(store.desired.current()).toEqual(stopped);
      expect(reported).toEqual([false]);
    }
    await using store = await location.open();
    expect(store.desired.current()).toMatchObject({ isStarted: false, by: "ada" });
    expect(await store.desired.set(true, start)).toMatchObject({ isStarted: true, by: undefined });
    await using again = await location.open();
    expect(again.desired.current()).toEqual(store.desired.current());
  });

  test("each change has an audit entry, and what changes nothing has none", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await store.desired.set(true, start);
    await store.desired.set(false, stop);
    const stopped = store.desired.current();
    await store.desired.set(false, { ...stop, origin: { ...origin, by: "grace" } });
    expect(store.desired.current()).toEqual(stopped);
    await store.desired.set(true, start);
    const { entries } = await store.audit.list({ limit: 10, order: "oldest" });
    expect(entries).toMatchObject([stop, start]);
    expect(await store.audit.verify()).toMatchObject({ problem: undefined });
  });

  test("concurrent changes are made one after another, and the last one is known", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await Promise.all([false, true, false, true, false].map((each) => store.desired.set(each, each ? start : stop)));
    await using again = await location.open();
    expect(again.desired.current()).toEqual(store.desired.current());
  });
}
