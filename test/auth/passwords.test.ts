import { hashSync } from "bcryptjs";
import { expect, test } from "vitest";
import { hashPassword, verifyPasswords } from "../../src/auth/passwords.ts";
import { parsePasswordHash } from "@flowgate/base/password-hash";

async function verify(password: string, text: string): Promise<boolean> {
  const hash = parsePasswordHash(text);
  if (hash === undefined) {
    throw new Error(`not a hash: ${text}`);
  }
  return (await verifyPasswords(password, [hash]))[0] === true;
}

test("creates argon2id hashes with OWASP's parameters and a random salt", async () => {
  const [one, two] = await Promise.all([hashPassword("pä$$"), hashPassword("pä$$")]);
  expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
  expect(one).not.toBe(two);
  expect(await verify("pä$$", one)).toBe(true);
  expect(await verify("pä$", one)).toBe(false);
});

test("verifies with the parameters of the hash itself", async () => {
  // From the tests of the reference implementation (phc-winner-argon2, test.c).
  const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
  expect(await verify("password", reference)).toBe(true);
  expect(await verify("Password", reference)).toBe(false);
});

test.each(["2a", "2b", "2y"])("verifies bcrypt's $%s$", async (prefix) => {
  const hash = hashSync("pä$$", 4).replace(/^\$2b/, () => `$${prefix}`);
  expect(await verify("pä$$", hash)).toBe(true);
  expect(await verify("pä$", hash)).toBe(false);
});

test("verifies a bcrypt password longer than the significant 72 bytes", async () => {
  const password = "é".repeat(35) + "😀😀";
  expect(await verify(`${password}beyond`, hashSync(password, 4))).toBe(true);
  expect(await verify(`${"é".repeat(34)}😀😀`, hashSync(password, 4))).toBe(false);
});

test("does not block the event loop while verifying bcrypt, and returns the right result to each call", async () => {
  const hash = hashSync("right", 9);
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns += 1;
    if (!isDone) {
      setImmediate(count);
    }
  };
  setImmediate(count);
  const verdicts = await Promise.all(["right", "wrong", "right", "wrong"].map((password) => verify(password, hash)));
  isDone = true;
  expect(verdicts).toEqual([true, false, true, false]);
  // On this thread, there would be only a few turns of the event loop per hash: bcryptjs yields ten times a second.
  expect(turns).toBeGreaterThan(200);
});

test("hashes and verifies two at a time, queues a hundred, and rejects more", async () => {
  // The cheapest that is accepted.
  const cheap = `$argon2id$v=19$m=32,t=1,p=1$c29tZXNhbHQ$${"A".repeat(43)}`;
  const one = [hashPassword("x"), hashPassword("x"), hashPassword("x")];
  const outcomes = await Promise.allSettled([...one, ...Array.from({ length: 102 }, () => verify("x", cheap))]);
  const rejected = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as unknown] : []));
  expect(rejected).toHaveLength(3);
  expect(rejected[0]).toMatchObject({ reason: "temporarily_unavailable" });
});

test.each([
  ["a password", "hunter2"],
  ["nothing", ""],
  ["argon2i", "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"],
  ["an old argon2id version", "$argon2id$v=16$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"],
  ["too much memory", "$argon2id$v=19$m=2097152,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"],
  ["too many passes", "$argon2id$v=19$m=65536,t=17,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"],
  [
    "too many lanes for its memory",
    "$argon2id$v=19$m=64,t=2,p=9$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
  ],
  ["too short a salt", "$argon2id$v=19$m=65536,t=2,p=1$c29t$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"],
  ["a tag that is too short", "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFh"],
  ["bcrypt's $2x$", hashSync("x", 4).replace("$2b", () => "$2x")],
  ["bcrypt too costly", hashSync("x", 4).replace("$04$", () => "$17$")],
  ["bcrypt cut short", hashSync("x", 4).slice(0, -1)],
])("does not accept %s as a hash", (_what, text) => {
  expect(parsePasswordHash(text)).toBeUndefined();
});
