import { expect, test } from "vitest";
import type { CredentialSets } from "@flowgate/flows";
import { NodeWrites, parseNodeWrite } from "../src/node-writes.ts";
import type { NodeStorage, CredentialWrite, CredentialWriteResult } from "../src/storage.ts";
import { revision } from "./builders.ts";

type Reply = ReadonlyMap<string, CredentialWriteResult> | undefined;

/** A database that answers each write when the test says so. */
function createWrites(current: ReadonlyMap<string, string> = new Map()) {
  const calls: { readonly write: CredentialWrite; readonly answer: (reply: Reply | Error) => void }[] = [];
  const warnings: string[] = [];
  const learned: CredentialSets[] = [];
  const storage: NodeStorage = {
    active: () => revision(1, []),
    async catchUp() {},
    unclaimedCredentials: () => new Map(),
    writeCredentials(write) {
      const { promise, resolve, reject } = Promise.withResolvers<Reply>();
      calls.push({ write, answer: (reply) => (reply instanceof Error ? reject(reply) : resolve(reply)) });
      return promise;
    },
    settings: { current: () => current, read: async () => current, write: async () => "full" },
    onCredentials: (sets) => void learned.push(sets),
  };
  const writes = new NodeWrites({
    storage,
    token: 7,
    log: ({ message }) => void warnings.push(message),
    redact: (text) => text.replaceAll("hunter2", "[redacted]"),
  });
  const results: (string | undefined)[] = [];
  const add = (id: string, set: object, sinceSeq?: number): void => {
    const write = parse(["credentials", id, JSON.stringify(set)]);
    writes.add(write, { sinceSeq, replaced, done: (problem) => void results.push(problem) });
  };
  const untilCalled = async (count: number): Promise<void> => {
    await expect.poll(() => calls.length, { timeout: 120_000 }).toBe(count);
  };
  return { writes, calls, warnings, learned, results, add, untilCalled };
}

function parse(values: readonly unknown[]) {
  const write = parseNodeWrite(JSON.stringify([1, ...values, 1]));
  if (write === undefined) {
    throw new Error("the write is malformed");
  }
  return write;
}

/** What the nodes had before they wrote. */
const replaced = new Map([["token", "t1"]]);

const written = (...ids: string[]): Reply => new Map(ids.map((id) => [id, "written"]));

test("a write is answered when it is stored, and the newest of a node replaces those that wait", async () => {
  const { writes, calls, learned, results, add, untilCalled } = createWrites();
  add("a", { token: "t1" });
  await untilCalled(1);
  add("a", { token: "t2" });
  add("a", { token: "t3" });
  expect(results).toEqual([]);
  expect(learned).toHaveLength(3);
  calls[0]?.answer(written("a"));
  await untilCalled(2);
  expect(results).toEqual([undefined]);
  calls[1]?.answer(written("a"));
  await writes.settle(120_000);
  expect(results).toHaveLength(4);
  expect(calls.map(({ write }) => write)).toEqual([
    { sets: new Map([["a", new Map([["token", "t1"]])]]), sinceSeq: undefined, token: 7 },
    { sets: new Map([["a", new Map([["token", "t3"]])]]), sinceSeq: undefined, token: 7 },
  ]);
});

test("a failed write is retried, and until then the next process has what was written", async () => {
  const { writes, calls, warnings, results, add, untilCalled } = createWrites();
  add("a", { token: "t2" }, 1);
  await untilCalled(1);
  calls[0]?.answer(new Error("the database is down"));
  await untilCalled(2);
  expect(results).toEqual([]);
  expect(warnings).toEqual(["what nodes store can't be written, which is retried: the database is down"]);
  expect(writes.credentialsOf(revision(1, [])).get("a")).toEqual(new Map([["token", "t2"]]));
  const later = (token: string) => revision(2, [], new Map([["a", new Map([["token", token]])]]));
  expect(writes.credentialsOf(later("t1")).get("a")).toEqual(new Map([["token", "t2"]]));
  expect(writes.credentialsOf(later("s3")).get("a")).toEqual(new Map([["token", "s3"]]));
  calls[1]?.answer(written("a"));
  await writes.settle(120_000);
  expect(results).toEqual([undefined]);
});

test("nothing is written any more when another replica holds the lease", async () => {
  const { writes, calls, results, add, untilCalled } = createWrites();
  add("a", { token: "t2" });
  await untilCalled(1);
  add("b", { token: "t2" });
  calls[0]?.answer(undefined);
  await writes.settle(120_000);
  add("c", { token: "t2" });
  expect(results).toEqual(Array(3).fill("another replica runs the flows"));
  expect(calls).toHaveLength(1);
});

test("nodes of different revisions are written apart, and what a deployment has replaced is no error", async () => {
  const { writes, calls, warnings, results, add, untilCalled } = createWrites();
  add("a", { token: "t1" }, 1);
  await untilCalled(1);
  add("b", { token: "t1" }, 1);
  add("c", { token: "t1" }, 2);
  calls[0]?.answer(new Map([["a", "superseded"]]));
  await untilCalled(2);
  calls[1]?.answer(written("b"));
  await untilCalled(3);
  calls[2]?.answer(new Map([["c", "full"]]));
  await writes.settle(120_000);
  expect(calls.map(({ write }) => [...write.sets.keys()])).toEqual([["a"], ["b"], ["c"]]);
  expect(results).toEqual(["a deployment has other credentials for it", undefined, "nodes have stored too many"]);
  expect(warnings).toEqual([`the credentials of the node "c" can't be stored: nodes have stored too many`]);
});

test("a setting that exceeds the limits is refused with the reason", async () => {
  const { writes, warnings } = createWrites(new Map([["kept", "1"]]));
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  writes.add(parse(["setting", "s", "2"]), { sinceSeq: undefined, replaced: undefined, done: resolve });
  expect(writes.settings).toEqual(new Map([["kept", "1"]]).set("s", "2"));
  expect(await promise).toBe("the settings of all modules are too many or too large");
  expect(warnings).toEqual([`the setting "s" can't be stored: the settings of all modules are too many or too large`]);
});

test("more than the limits permit does not wait for a database that fails", async () => {
  const { results, add } = createWrites();
  const large = "x".repeat(60_000);
  for (let count = 0; count < 300; count += 1) {
    add(`n${count}`, { large });
  }
  expect(results.length).toBeGreaterThan(10);
  expect(new Set(results)).toEqual(new Set(["too much waits for the database"]));
});

test("many small writes do not take any amount of memory while they wait", async () => {
  const { results, add } = createWrites();
  for (let count = 0; count < 10_100; count += 1) {
    add(`n${count % 10_050}`, {});
  }
  expect(results).toEqual(Array(100).fill("too much waits for the database"));
});

test("the warning about what can't be stored has no values of credentials", () => {
  const { warnings, add } = createWrites();
  add("n hunter2", []);
  expect(warnings).toEqual([`the credentials of the node "n [redacted]" can't be stored: they must be an object`]);
});

const deep = "[".repeat(40) + "]".repeat(40);

test.each<[string, readonly unknown[], string]>([
  ["no id", ["credentials", "", "{}"], "the id of a node has 1 to 256 characters"],
  ["a long id", ["credentials", "x".repeat(257), "{}"], "the id of a node has 1 to 256 characters"],
  ["a reserved id", ["credentials", "__proto__", "{}"], "the id of a node has 1 to 256 characters"],
  ["a list", ["credentials", "a", "[]"], "they must be an object"],
  ["no JSON", ["credentials", "a", "{"], "they must be an object"],
  ["many bytes", ["credentials", "a", JSON.stringify({ a: "x".repeat(65_536) })], "they must have at most 64 KiB"],
  [
    "many names",
    ["credentials", "a", JSON.stringify(Object.fromEntries(Array.from({ length: 101 }, (_, at) => [at, 1])))],
    "they must have at most 100 names, of 256 characters",
  ],
  ["a reserved name", ["credentials", "a", `{"__proto__":1}`], "this key is not allowed"],
  [
    "deep nesting",
    ["credentials", "a", `{"a":${deep}}`],
    "must not be nested deeper than 32 levels of objects and arrays",
  ],
  ["a lone surrogate", ["credentials", "a", `{"a":"\\ud800"}`], "must be valid Unicode, without lone surrogates"],
  ["a setting without a name", ["setting", "", "1"], "its name must have 1 to 500 bytes"],
  ["a large setting", ["setting", "s", JSON.stringify("x".repeat(262_144))], "it must have at most 256 KiB of JSON"],
  ["a setting that is no JSON", ["setting", "s", "{"], "it must be JSON"],
])("%s is not stored", (_, values, problem) => {
  expect(parse(values)).toMatchObject({ kind: "invalid", problem });
});

test.each(["", "1", "[]", `["1","credentials","a","{}",1]`, `[1,"other","a","{}",1]`, `[1,"setting","a",1,1]`])(
  "what nodes have not sent, %s, is ignored",
  (text) => {
    expect(parseNodeWrite(text)).toBeUndefined();
  },
);
