import { once } from "node:events";
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { createThread } from "../src/thread.ts";
import type { Done, Task } from "./fixtures/thread/worker.ts";

function open(idleMs?: number) {
  const name = crypto.randomUUID();
  const channel = new BroadcastChannel(name);
  const disposed = once(channel as unknown as EventTarget, "message").finally(() => channel.close());
  const deaths: string[] = [];
  const thread = createThread<Task, Done>({
    name: "test",
    entry: new URL("./fixtures/thread/worker.ts", import.meta.url),
    data: name,
    died: (error) => deaths.push(error.message),
    ...(idleMs !== undefined && { idleMs }),
  });
  const echo = (text: string) => thread.call({ kind: "echo", bytes: new TextEncoder().encode(text) });
  return { thread, echo, deaths, disposed };
}

test("calls are answered in order by one thread, and what is transferred is not copied", async () => {
  const { thread, echo } = open();
  await using _ = thread;
  const bytes = new TextEncoder().encode("three");
  const answers = await Promise.all([echo("one"), echo("two"), thread.call({ kind: "echo", bytes }, [bytes.buffer])]);
  expect(answers.map((answer) => new TextDecoder().decode(answer.bytes))).toEqual(["one", "two", "three"]);
  expect(new Set(answers.map(({ threadId }) => threadId)).size).toBe(1);
  expect(bytes.length).toBe(0);
});

test("an error of the thread keeps its message and its own properties, and the thread goes on", async () => {
  const { thread, echo, deaths } = open();
  await using _ = thread;
  const { threadId } = await echo("before");
  await expect(thread.call({ kind: "throw" })).rejects.toMatchObject({ message: "it does not work", errcode: 7 });
  expect((await echo("after")).threadId).toBe(threadId);
  expect(deaths).toEqual([]);
});

test("a thread that dies fails the calls that it has not answered, and the next call has a new one", async () => {
  const { thread, echo, deaths } = open();
  await using _ = thread;
  const { threadId } = await echo("before");
  const failed = await Promise.allSettled([thread.call({ kind: "exit" }), echo("behind it")]);
  expect(failed).toEqual([
    { status: "rejected", reason: expect.objectContaining({ reason: "unavailable" }) },
    { status: "rejected", reason: expect.objectContaining({ reason: "unavailable" }) },
  ]);
  expect(deaths).toEqual(["the thread ended with 3"]);
  expect((await echo("after")).threadId).not.toBe(threadId);
});

test("an idle thread ends in order, and the next call has a new one", async () => {
  const { thread, echo, disposed, deaths } = open(1);
  await using _ = thread;
  const { threadId } = await echo("before");
  await disposed;
  expect((await echo("after")).threadId).not.toBe(threadId);
  expect(deaths).toEqual([]);
});

test("disposing waits for the calls that are under way", async () => {
  const { thread, echo, disposed } = open();
  const answer = echo("last");
  await thread[Symbol.asyncDispose]();
  expect(new TextDecoder().decode((await answer).bytes)).toBe("last");
  await disposed;
});
