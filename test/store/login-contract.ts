import { expect, test } from "vitest";
import type { AttemptLimit, AttemptReply, LoginAttempt, LoginAttempts } from "../../src/store/login-attempts.ts";
import type { StoreLocation } from "./contract.ts";

const windowMs = 60_000;
const user: AttemptLimit = { key: "user", max: 3, isReset: true };
const client: AttemptLimit = { key: "client", max: 5, isReset: false };

async function begin(logins: LoginAttempts, ...limits: readonly AttemptLimit[]): Promise<LoginAttempt> {
  const reply = await logins.begin(limits, windowMs);
  if (reply.kind !== "begun") {
    throw new TypeError(`the attempt is ${reply.kind}`);
  }
  return reply.attempt;
}

async function fail(logins: LoginAttempts, times: number, ...limits: readonly AttemptLimit[]): Promise<void> {
  for (let count = 0; count < times; count += 1) {
    await (await begin(logins, ...limits)).end("failed");
  }
}

const kinds = (replies: readonly AttemptReply[]): string[] => replies.map(({ kind }) => kind).toSorted();

/** The contract of `LoginAttempts`. */
export function loginAttemptsContract(createLocation: () => Promise<StoreLocation>): void {
  test("blocks a key after as many failed attempts as its limit, and tells which keys are blocked", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await fail(store.logins, 2, user, client);
    expect(await (await begin(store.logins, user, client)).end("failed")).toEqual(["user"]);
    const reply = await store.logins.begin([user, client], windowMs);
    expect(reply).toMatchObject({ kind: "blocked", forMs: expect.toSatisfy((ms) => ms > 50_000 && ms <= windowMs) });
    await begin(store.logins, client);
    await begin(store.logins, { ...user, key: "another user" }, client);
  });

  test("forgets failed attempts after the window", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await fail(store.logins, 3, user);
    await expect.poll(async () => (await store.logins.begin([user], 100)).kind).toBe("begun");
  });

  test("a successful attempt resets the failures of the keys that say so", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await fail(store.logins, 2, user, client);
    expect(await (await begin(store.logins, user, client)).end("succeeded")).toEqual([]);
    await fail(store.logins, 2, user, client);
    await (await begin(store.logins, user, client)).end("abandoned");
    await fail(store.logins, 1, user, client);
    expect(await store.logins.begin([client], windowMs)).toMatchObject({ kind: "blocked" });
    expect(await store.logins.begin([user], windowMs)).toMatchObject({ kind: "blocked" });
  });

  test("concurrent attempts can't exceed a limit", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    const replies = await Promise.all(Array.from({ length: 10 }, () => store.logins.begin([user, client], windowMs)));
    expect(kinds(replies)).toEqual([...Array<string>(3).fill("begun"), ...Array<string>(7).fill("busy")].toSorted());
    const [one, ...others] = replies.flatMap((reply) => (reply.kind === "begun" ? [reply.attempt] : []));
    await one?.end("abandoned");
    for (const attempt of others) {
      await attempt.end("failed");
    }
    await fail(store.logins, 1, user);
    expect(await store.logins.begin([user], windowMs)).toMatchObject({ kind: "blocked" });
  });

  test("an attempt that is rejected for one key does not count for the others", async () => {
    await using location = await createLocation();
    await using store = await location.open();
    await fail(store.logins, 3, user);
    for (let count = 0; count < 10; count += 1) {
      expect(await store.logins.begin([user, client], windowMs)).toMatchObject({ kind: "blocked" });
    }
    await fail(store.logins, 5, client);
  });

  test("failed attempts count after the store was closed and opened again, unless they were reset", async () => {
    await using location = await createLocation();
    {
      await using store = await location.open();
      await fail(store.logins, 2, user, client);
      await (await begin(store.logins, user, client)).end("succeeded");
      await fail(store.logins, 2, client);
    }
    {
      await using store = await location.open();
      await fail(store.logins, 1, user, client);
      expect(await store.logins.begin([client], windowMs)).toMatchObject({ kind: "blocked" });
      await fail(store.logins, 2, user);
    }
    await using store = await location.open();
    expect(await store.logins.begin([user], windowMs)).toMatchObject({ kind: "blocked" });
  });
}
