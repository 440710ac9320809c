import { once } from "node:events";
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { type Caller, openSharedThreads } from "../src/shared-threads.ts";
import type { Done, Task } from "../../../test/fixtures/thread/worker.ts";

const never = new AbortController().signal;

function open({ count = 1, maxMs = 600_000 } = {}) {
  const name = crypto.randomUUID();
  const threads = openSharedThreads<Task, Done>({
    name: "test",
    entry: new URL("../../../test/fixtures/thread/worker.ts", import.meta.url),
    data: name,
    count,
    work: "testing",
    limit: { maxMs, option: "limits.testMs" },
    onUnexpectedExit: ({ message }) => expect.unreachable(message),
  });
  return {
    [Symbol.asyncDispose]: () => threads[Symbol.asyncDispose](),
    echo: (caller: Partial<Caller>) =>
      threads.call({ kind: "echo", bytes: new Uint8Array() }, { source: "a", signal: never, ...caller }),
    /** Computes until it is ended. Resolves when it has begun. */
    async hang(caller: Partial<Caller>): Promise<{ readonly ended: Promise<Done> }> {
      const channel = new BroadcastChannel(name);
      const began = once(channel as unknown as EventTarget, "message").finally(() => channel.close());
      const ended = threads.call({ kind: "hang" }, { source: "a", signal: never, ...caller });
      ended.catch(() => {});
      await Promise.race([began, ended]);
      return { ended };
    },
  };
}

test("a call that takes too long is ended, with the limit and its option in the error", async () => {
  await using threads = open({ maxMs: 1 });
  await expect(threads.hang({})).rejects.toMatchObject({
    reason: "limit_exceeded",
    message: "testing took more than 0.001 s: make the flows smaller or simpler, or raise limits.testMs",
  });
});

test("the time that a call waits counts, and so does that before it", async () => {
  await using threads = open({ maxMs: 60_000 });
  const { ended } = await threads.hang({});
  await expect(threads.echo({ startMs: performance.now() - 60_000 })).rejects.toMatchObject({
    reason: "limit_exceeded",
    message: "testing could not begin within 60 s (limits.testMs), since other calls took that long: try again later",
  });
  await threads[Symbol.asyncDispose]();
  await expect(ended).rejects.toMatchObject({ reason: "unavailable" });
});

test("the end of the client ends its call, and the next one is made", async () => {
  await using threads = open();
  const client = new AbortController();
  const { ended } = await threads.hang({ signal: client.signal });
  const next = threads.echo({ source: "b" });
  client.abort(new Error("the client is gone"));
  await expect(ended).rejects.toThrow("the client is gone");
  await next;
});

test("a source can't take all threads", async () => {
  await using threads = open({ count: 2 });
  await threads.hang({ source: "a" });
  const waiting = Promise.allSettled([threads.echo({ source: "a" }), threads.echo({ source: "a" })]);
  await threads.echo({ source: "b" });
  await threads[Symbol.asyncDispose]();
  expect((await waiting).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});

test("too many waiting calls of one source are rejected, and those of others are not", async () => {
  await using threads = open({ count: 2 });
  await threads.hang({ source: "a" });
  const waiting = Promise.allSettled(Array.from({ length: 64 }, () => threads.echo({ source: "a" })));
  await expect(threads.echo({ source: "a" })).rejects.toMatchObject({
    reason: "limit_exceeded",
    message: "testing: too many calls wait for that: try again when they have ended",
  });
  await threads.echo({ source: "b" });
  await threads[Symbol.asyncDispose]();
  await waiting;
});

test("disposing ends calls that compute, and those that wait", async () => {
  const threads = open();
  const { ended } = await threads.hang({});
  const waiting = threads.echo({ source: "b" });
  const results = Promise.allSettled([ended, waiting]);
  await threads[Symbol.asyncDispose]();
  expect(await results).toEqual(
    Array.from({ length: 2 }, () => ({
      status: "rejected",
      reason: expect.objectContaining({ reason: "unavailable" }),
    })),
  );
});
