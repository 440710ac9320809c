import { duplexPair } from "node:stream";
import { expect, test } from "vitest";
import { createFrameReader, formatFrame, openChildChannel } from "../src/channel.ts";
import { cutText } from "../src/node-events.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);

function read(chunks: readonly Uint8Array[]): unknown[] {
  const frames: unknown[] = [];
  const reader = createFrameReader((message, payload) => frames.push([message, payload.toString()]));
  for (const chunk of chunks) {
    reader(Buffer.from(chunk));
  }
  return frames;
}

test.for([1, 2, 11, 12, 13, 64, 10_000])("reads messages and payloads from chunks of %i bytes", (size) => {
  const sent = [
    [{ kind: "initialize", text: "größer\n" }, ""],
    [{ kind: "deploy" }, `[{"name":"\n→"}]`],
    [{ kind: "deploy" }, "x".repeat(1_000)],
    [{ kind: "stop" }, ""],
  ] as const;
  const bytes = Buffer.concat(sent.flatMap(([message, payload]) => formatFrame(message, utf8(payload))));
  const count = Math.ceil(bytes.length / size);
  const chunks = Array.from({ length: count }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
  expect(read(chunks)).toEqual(sent);
});

test("waits until a frame is complete", () => {
  const bytes = Buffer.concat(formatFrame({ kind: "deploy" }, utf8("[]")));
  expect(read([bytes.subarray(0, -1)])).toEqual([]);
  expect(read([bytes.subarray(0, -1), bytes.subarray(-1)])).toEqual([[{ kind: "deploy" }, "[]"]]);
});

test("does not copy the payload", () => {
  const payload = utf8("[]");
  expect(formatFrame({ kind: "deploy" }, payload)).toContain(payload);
});

test.for([1, 4, 20])("throws if the first %i bytes of a frame are missing", (missing) => {
  const bytes = Buffer.concat(formatFrame({ kind: "deploy" }, utf8("[]".repeat(20))));
  expect(() => read([bytes.subarray(missing)])).toThrow("bytes are missing in the runtime's own channel");
});

test("tells when a message is sent, which the reader can delay, or can't be sent", async () => {
  const [parent, child] = duplexPair();
  const channel = openChildChannel(parent, { readText: cutText, onMessage: () => {}, onInvalidMessage: () => {} });
  const events: string[] = [];
  const send = (name: string): Promise<void> =>
    new Promise((resolve) => {
      channel.send({ kind: "stop" }, utf8("x".repeat(100_000)), () => {
        events.push(name);
        resolve();
      });
    });
  const first = send("first");
  events.push("reading");
  child.resume();
  await first;
  child.pause();
  const second = send("second");
  events.push("closing");
  channel.close();
  await second;
  await send("after the end");
  expect(events).toEqual(["reading", "first", "closing", "second", "after the end"]);
});
