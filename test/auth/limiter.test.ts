import { expect, test } from "vitest";
import { type Limiter, type Attempt, createLimiter } from "../../src/auth/limiter.ts";
import { createMemoryAttempts } from "../../src/store/login-attempts.ts";

const minuteMs = 60_000;

function clock() {
  let nowMs = 1_000_000;
  return { now: () => nowMs, pass: (ms: number) => void (nowMs += ms) };
}

async function begin(limiter: Limiter, username: string, address = "10.0.0.1"): Promise<Attempt> {
  const attempt = await limiter.begin(username, address);
  if (attempt === "busy" || typeof attempt === "number") {
    throw new TypeError(`rejected: ${attempt}`);
  }
  return attempt;
}

async function fail(limiter: Limiter, times: number, username: string, address?: string): Promise<void> {
  for (let at = 0; at < times; at += 1) {
    await (await begin(limiter, username, address)).fail();
  }
}

test("blocks the sixth attempt of a user, until the first of the five is ten minutes old", async () => {
  const { now, pass } = clock();
  const limiter = createLimiter(createMemoryAttempts(now));
  await fail(limiter, 1, "ada");
  pass(minuteMs);
  await fail(limiter, 4, "ada");
  expect(await limiter.begin("ada", "10.0.0.2")).toBe(9 * 60);
  pass(9 * minuteMs - 1);
  expect(await limiter.begin("ada", "10.0.0.2")).toBe(1);
  pass(1);
  await fail(limiter, 1, "ada");
  expect(await limiter.begin("ada", "10.0.0.2")).toBe(60);
});

test("counts each user separately, whatever its name", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  await fail(limiter, 5, "__proto__");
  expect(await limiter.begin("__proto__", "10.0.0.1")).toBe(600);
  await fail(limiter, 5, "constructor");
  expect(await limiter.begin("constructor", "10.0.0.1")).toBe(600);
});

test("blocks an address after fifty failures, whatever the users", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  for (let at = 0; at < 50; at += 1) {
    await fail(limiter, 1, `user ${at}`, "10.0.0.1");
  }
  expect(await limiter.begin("another", "10.0.0.1")).toBe(600);
  expect(await limiter.begin("another", "::ffff:10.0.0.1")).toBe(600);
  await fail(limiter, 1, "another", "10.0.0.2");
});

test("resets the failures of a user who succeeds, but not those of the address", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  for (let at = 0; at < 12; at += 1) {
    await fail(limiter, 4, "ada");
    await (await begin(limiter, "ada")).succeed();
  }
  await fail(limiter, 2, "ada");
  expect(await limiter.begin("ada", "10.0.0.1")).toBe(600);
});

test("does not count an abandoned attempt", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  for (let at = 0; at < 60; at += 1) {
    await (await begin(limiter, "ada")).abandon();
  }
  expect(await limiter.begin("ada", "10.0.0.1")).not.toBeTypeOf("number");
});

test("applies the limit to concurrent attempts", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  const burst = Array.from({ length: 20 }, () => limiter.begin("ada", "10.0.0.1"));
  const first = await Promise.all(burst.slice(0, 5));
  for (const attempt of first) {
    await (attempt as Attempt).fail();
  }
  expect(await Promise.all(burst.slice(5))).toEqual(Array(15).fill(600));
});

test("allows a burst of correct passwords, one after another", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  const burst = Array.from({ length: 20 }, async () => (await begin(limiter, "ada")).succeed());
  expect(await Promise.all(burst)).toHaveLength(20);
});

test("counts a failure that was in progress when another attempt succeeded", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  const [right, ...wrong] = await Promise.all(Array.from({ length: 5 }, () => begin(limiter, "ada")));
  await right?.succeed();
  for (const attempt of wrong) {
    await attempt.fail();
  }
  await fail(limiter, 1, "ada");
  expect(await limiter.begin("ada", "10.0.0.1")).toBe(600);
});

test("lets at most a hundred attempts wait", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  const inFlight = await Promise.all(Array.from({ length: 5 }, () => begin(limiter, "ada")));
  const waiting = Array.from({ length: 100 }, () => limiter.begin("ada", "10.0.0.1"));
  expect(await limiter.begin("ada", "10.0.0.1")).toBe("busy");
  for (const attempt of inFlight) {
    await attempt.fail();
  }
  expect(new Set(await Promise.all(waiting))).toEqual(new Set([600]));
});

test("evicts the least recent names when there are too many", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  await fail(limiter, 5, "first", "10.0.0.1");
  for (let at = 0; at < 10_000; at += 1) {
    await fail(limiter, 1, `user ${at}`, `10.1.${at >> 8}.${at & 255}`);
  }
  expect(await limiter.begin("first", "10.0.0.1")).not.toBeTypeOf("number");
});

test("counts logins of the network and of the socket separately", async () => {
  const limiter = createLimiter(createMemoryAttempts(clock().now));
  const kinds = ["network", "socket"] as const;
  for (const [at, kind] of kinds.entries()) {
    for (let count = 0; count < 5; count += 1) {
      await ((await limiter.begin("ada", "127.0.0.1", kind)) as Attempt).fail();
    }
    const blocked = await Promise.all(kinds.slice(0, at + 1).map((one) => limiter.begin("ada", "127.0.0.1", one)));
    expect(blocked).toEqual(Array(at + 1).fill(600));
  }
});
