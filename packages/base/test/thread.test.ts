import { once } from "node:events";
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { openThread, type ThreadOptions } from "../src/thread.ts";
import type { Done, Task } from "../../../test/fixtures/thread/worker.ts";

function open(options: Pick<ThreadOptions, "idleMs" | "maxIdleHeapBytes"> = {}) {
  const name = crypto.randomUUID();
  const channel = new BroadcastChannel(name);
  const disposed = once(channel as unknown as EventTarget, "message").finally(() => channel.close());
  const unexpectedExits: string[] = [];
  const thread = openThread<Task, Done>({
    name: "test",
    entry: new URL("../../../test/fixtures/thread/worker.ts", import.meta.url),
    data: name,
    limits: { maxOldGenerationSizeMb: 32 },
    outOfMemory: () => new Error("too much"),
    onUnexpectedExit: (error) => unexpectedExits.push(error.message),
    ...options,
  });
  const echo = (text: string) => thread.call({ kind: "echo", bytes: new TextEncoder().encode(text) });
  return { thread, echo, unexpectedExits, disposed };
}

test("one thread serves calls in order, and moves transferred objects", async () => {
  const { thread, echo } = open();
  await using _ = thread;
  const bytes = new TextEncoder().encode("three");
  const replies = await Promise.all([echo("one"), echo("two"), thread.call({ kind: "echo", bytes }, [bytes.buffer])]);
  expect(replies.map((reply) => new TextDecoder().decode(reply.bytes))).toEqual(["one", "two", "three"]);
  expect(new Set(replies.map(({ threadId }) => threadId)).size).toBe(1);
  expect(bytes.length).toBe(0);
});

test("an error keeps its message and own properties, and the thread continues", async () => {
  const { thread, echo, unexpectedExits } = open();
  await using _ = thread;
  const { threadId } = await echo("before");
  await expect(thread.call({ kind: "throw" })).rejects.toMatchObject({ message: "it does not work", errcode: 7 });
  expect((await echo("after")).threadId).toBe(threadId);
  expect(unexpectedExits).toEqual([]);
});

test("calls reject if the thread exits, and the next call starts a new one", async () => {
  const { thread, echo, unexpectedExits } = open();
  await using _ = thread;
  const { threadId } = await echo("before");
  const failed = await Promise.allSettled([thread.call({ kind: "exit" }), echo("queued")]);
  expect(failed).toEqual([
    { status: "rejected", reason: expect.objectContaining({ reason: "unavailable" }) },
    { status: "rejected", reason: expect.objectContaining({ reason: "unavailable" }) },
  ]);
  expect(unexpectedExits).toEqual(["the thread exited with code 3"]);
  expect((await echo("after")).threadId).not.toBe(threadId);
});

test("a call that takes more memory than its thread may have rejects, and others can be repeated", async () => {
  const { thread, echo, unexpectedExits } = open();
  await using _ = thread;
  const failed = await Promise.allSettled([thread.call({ kind: "exhaust" }), echo("queued")]);
  expect(failed).toEqual([
    { status: "rejected", reason: new Error("too much") },
    { status: "rejected", reason: expect.objectContaining({ reason: "unavailable" }) },
  ]);
  expect(unexpectedExits).toHaveLength(1);
  expect(new TextDecoder().decode((await echo("after")).bytes)).toBe("after");
});

test("aborting a call ends its thread even while that computes, and the next call starts a new one", async () => {
  const { thread, echo, unexpectedExits } = open();
  await using _ = thread;
  const { threadId } = await echo("before");
  const client = new AbortController();
  const hanging = thread.call({ kind: "hang" }, [], client.signal);
  client.abort(new Error("gone"));
  await expect(hanging).rejects.toThrow("gone");
  await expect(thread.call({ kind: "hang" }, [], client.signal)).rejects.toThrow("gone");
  expect((await echo("after")).threadId).not.toBe(threadId);
  expect(unexpectedExits).toEqual([]);
});

test("an idle thread is stopped, and the next call starts a new one", async () => {
  const { thread, echo, disposed, unexpectedExits } = open({ idleMs: 1 });
  await using _ = thread;
  const { threadId } = await echo("before");
  await disposed;
  expect((await echo("after")).threadId).not.toBe(threadId);
  expect(unexpectedExits).toEqual([]);
});

test("a thread whose heap has grown is stopped when it is idle, and others are kept", async () => {
  const { thread, echo, disposed, unexpectedExits } = open({ maxIdleHeapBytes: 24 * 1024 * 1024 });
  await using _ = thread;
  const { threadId } = await echo("before");
  const [grown, queued] = await Promise.all([thread.call({ kind: "grow" }), echo("queued")]);
  expect([grown.threadId, queued.threadId]).toEqual([threadId, threadId]);
  await disposed;
  expect((await echo("after")).threadId).not.toBe(threadId);
  expect(unexpectedExits).toEqual([]);
});

test("disposing waits for pending calls", async () => {
  const { thread, echo, disposed } = open();
  const reply = echo("last");
  await thread[Symbol.asyncDispose]();
  expect(new TextDecoder().decode((await reply).bytes)).toBe("last");
  await disposed;
});
