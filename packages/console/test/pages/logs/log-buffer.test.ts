import { create } from "@bufbuild/protobuf";
import { type Event, EventSchema } from "@flowgate/client";
import { expect, test } from "vitest";
import { LogBuffer, maxEntries } from "../../../src/pages/logs/log-buffer.ts";

function events(from: number, to: number, runtime = ""): Event[] {
  return Array.from({ length: to - from }, (_, index) =>
    create(EventSchema, { id: String(from + index), runtime, kind: { case: "log", value: {} } }),
  );
}

const ids = ({ snapshot }: LogBuffer): string[] => snapshot.shown.map(({ id }) => id);

test("has the newest first, and earlier ones after them", () => {
  const buffer = new LogBuffer();
  buffer.add(events(10, 12));
  expect(buffer.addEarlier(events(8, 10).toReversed())).toBe(2);
  buffer.add(events(12, 13));
  expect(ids(buffer)).toEqual(["12", "11", "10", "9", "8"]);
});

test("has an event once, also if it is read and arrives", () => {
  const buffer = new LogBuffer();
  buffer.add(events(10, 12));
  expect(buffer.addEarlier(events(9, 12).toReversed())).toBe(1);
  buffer.add(events(9, 12));
  expect(ids(buffer)).toEqual(["11", "10", "9"]);
  buffer.add(events(11, 12, "other runtime"));
  expect(ids(buffer)).toEqual(["11", "11", "10", "9"]);
});

test("holds back what arrives, counts it, and shows it in the end", () => {
  const buffer = new LogBuffer();
  buffer.add(events(0, 1));
  buffer.hold(true);
  buffer.add(events(1, 4));
  expect([ids(buffer), buffer.snapshot.held]).toEqual([["0"], 3]);
  buffer.hold(false);
  expect([ids(buffer), buffer.snapshot.held]).toEqual([["3", "2", "1", "0"], 0]);
});

test("keeps a bounded number: the newest", () => {
  const buffer = new LogBuffer();
  buffer.add(events(0, maxEntries));
  buffer.add(events(maxEntries, maxEntries + 10));
  expect(ids(buffer)).toHaveLength(maxEntries);
  expect([ids(buffer)[0], ids(buffer).at(-1)]).toEqual([String(maxEntries + 9), "10"]);
  expect(buffer.addEarlier(events(0, 10))).toBe(0);
});

test("says how many are missing if more arrive while they are held back than it keeps", () => {
  const buffer = new LogBuffer();
  buffer.hold(true);
  buffer.add(events(0, maxEntries));
  buffer.add(events(maxEntries, maxEntries + 5));
  expect(buffer.snapshot.held).toBe(maxEntries + 5);
  buffer.hold(false);
  const { shown } = buffer.snapshot;
  expect(shown).toHaveLength(maxEntries);
  expect(shown[0]?.id).toBe(String(maxEntries + 4));
  expect(shown.at(-1)?.kind).toMatchObject({ case: "dropped", value: { count: 6, reason: "not_kept" } });
});
