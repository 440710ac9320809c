import { pino } from "pino";
import { expect, test } from "vitest";
import { Redactor, compileValues, valuesOf } from "../../../src/events/redaction/redactor.ts";
import { type Secrets, openSecrets } from "../../../src/events/redaction/secrets.ts";
import type { CredentialSets } from "@flowgate/flows";
import { createListeners } from "@flowgate/base/listeners";
import type { RevisionEvent } from "../../../src/store/flow-store.ts";
import { credentials } from "../../../packages/runtime/test/builders.ts";
import { revision } from "../../store/revision.ts";

const log = pino({ level: "silent" });

/** The credentials of a node, with many values that begin alike. */
function many(count: number, prefix = "x".repeat(60)): CredentialSets {
  return credentials({ n: Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, `${prefix}${at}`])) });
}

async function open(active: CredentialSets = new Map(), before: CredentialSets = new Map()) {
  const changes = createListeners<RevisionEvent>();
  const writes = createListeners<CredentialSets>();
  const withCredentials = (next: CredentialSets) => ({ ...revision(2, []), parent: "r1", credentials: next });
  const secrets = await openSecrets(
    {
      active: () => withCredentials(active),
      findCredentials: async () => before,
      unclaimedCredentials: () => password("unclaimed"),
      onRevision: (listener) => changes.add(listener),
      onCredentials: (listener) => writes.add(listener),
    },
    log,
  );
  const commit = (next: CredentialSets) => changes.notify({ revision: withCredentials(next), isOwn: true });
  return { secrets, commit, write: (next: CredentialSets) => writes.notify(next) };
}

const password = (value: string): CredentialSets => credentials({ a: { password: value } });
const redact = ({ redact: replace }: Secrets, text: string): string => replace(text, false);

test("the credentials of the active revision, of the one before and of the last two that flows have received are redacted", async () => {
  const { secrets, commit } = await open(password("active"), password("before"));
  await using _ = secrets;
  expect(redact(secrets, "active before first second third")).toBe("[redacted] [redacted] first second third");
  for (const value of ["first", "second", "third"]) {
    expect(secrets.learn(password(value))).toBeUndefined();
  }
  expect(redact(secrets, "first second third")).toBe("first [redacted] [redacted]");
  commit(password("newer"));
  expect(redact(secrets, "before active newer")).toBe("before [redacted] [redacted]");
});

test("what nodes have stored is redacted at once, and so is what it replaced", async () => {
  const { secrets, write } = await open(password("first"));
  await using _ = secrets;
  expect(redact(secrets, "unclaimed first second")).toBe("[redacted] [redacted] second");
  secrets.learnWritten(new Map([["a", new Map([["token", { access: ["second"] }]])]]));
  expect(redact(secrets, "unclaimed first second")).toBe("[redacted] [redacted] [redacted]");
  write(password("third"));
  write(password("fourth"));
  expect(redact(secrets, "first second third fourth")).toBe("[redacted] [redacted] [redacted] [redacted]");
});

test("of what nodes store without end, the last is redacted", async () => {
  const { secrets } = await open(password("hunter2"));
  await using _ = secrets;
  for (let count = 0; count < 150; count += 1) {
    secrets.learnWritten(password(`value-${count}.${"x".repeat(10_000)}`));
  }
  await expect
    .poll(() => redact(secrets, `hunter2, value-149.${"x".repeat(10_000)}`), { timeout: 120_000 })
    .toBe("[redacted], [redacted]");
  const old = `value-90.${"x".repeat(10_000)}`;
  await expect.poll(() => redact(secrets, old), { timeout: 120_000 }).toBe(old);
});

test("many credentials are compiled off the event loop, and known before flows receive them", async () => {
  const { secrets } = await open(many(10_000, "active".repeat(10)));
  await using _ = secrets;
  expect(redact(secrets, `${"active".repeat(10)}9999`)).toBe("[redacted]");
  const large = many(30_000);
  const control = cpuMs(() => void compileValues(valuesOf([large])));
  let learned: Promise<void> | undefined;
  const own = cpuMs(() => {
    learned = secrets.learn(large);
  });
  expect(learned).toBeInstanceOf(Promise);
  expect(own).toBeLessThan(control);
  await learned;
  expect(redact(secrets, `${"x".repeat(60)}29999, ${"active".repeat(10)}1`)).toBe("[redacted], [redacted]");
  // Few more are known at once.
  expect(secrets.learn(new Map([...large, ...password("hunter2")]))).toBeUndefined();
  expect(redact(secrets, `hunter2 ${"x".repeat(60)}1`)).toBe("[redacted] [redacted]");
  // So are fewer, and what is not used any more is forgotten.
  void secrets.learn(password("hunter2"));
  await secrets.learn(password("hunter3"));
  await expect
    .poll(() => redact(secrets, `${"x".repeat(60)}1 hunter2 hunter3`), { timeout: 120_000 })
    .toBe(`${"x".repeat(60)}1 [redacted] [redacted]`);
});

test("long texts are redacted off the event loop", async () => {
  const { secrets } = await open(password("hunter2"));
  await using _ = secrets;
  const texts = new Set([`${"y".repeat(1_000_000)}hunter2`, "no secret", "is hunte"]);
  expect(await secrets.redactAll(texts, true)).toEqual(
    new Map([
      [`${"y".repeat(1_000_000)}hunter2`, `${"y".repeat(1_000_000)}[redacted]`],
      ["is hunte", "is [redacted]"],
    ]),
  );
});

test("the time of a search depends on the text and not on the number of values", () => {
  const values = [...valuesOf([many(20_000)])];
  const text = "x".repeat(16_000);
  const [one, all] = [values.slice(0, 1), values].map((some) => {
    const redactor = new Redactor([compileValues(some)]);
    redactor.redact(text, false);
    return Math.min(...Array.from({ length: 5 }, () => cpuMs(() => void redactor.redact(text, false))));
  });
  expect(all).toBeLessThan(20 * (one ?? 0) + 5);
});

function cpuMs(run: () => void): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
