import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { getContext, listContext, setContext } from "../src/context-procedures.ts";
import type { ContextStorage } from "../src/flow-settings.ts";
import type { ContextStore, ContextValue } from "../src/storage.ts";
import { revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, functionNode, tab } from "./flow-builders.ts";

const files = { base: "context", cache: true, flushInterval: 0 };

const contextStorage: ContextStorage = {
  default: "memory",
  memory: { module: "memory" },
  file: { module: "localfilesystem", config: files },
  slow: { module: "localfilesystem", config: { ...files, base: "uncached", cache: false } },
};

const flows = [
  ...endpoint(
    "add",
    `const n = (global.get("n", "file") || 0) + 1; global.set("n", n, "file"); global.set("m", n); msg.payload = n`,
  ),
  ...endpoint("read", `msg.payload = [global.get("n", "file"), global.get("m"), flow.get("kept", "file")]`),
  tab("T"),
  functionNode("f", {
    z: "T",
    initialize: `context.set("mine", { deep: [1] }, "file"); flow.set("ours", 2, "slow", () => {})`,
  }),
];

async function write(userDir: string, contents: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(contents)) {
    const path = join(userDir, "context", name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, text);
  }
}

test("values in files outlive their process, and those of nodes that are gone are removed", async () => {
  const stored = {
    "global/global.json": `{"n": 4}`,
    "read-tab/flow.json": `{"kept": "x"}`,
    "gone/flow.json": `{"a": 1}`,
  };
  await using runtime = await runtimeUnderTest({ contextStorage }, (_, userDir) => write(userDir, stored));
  await runtime.apply(revision(1, flows), "full");
  expect(await runtime.get("/add")).toBe("5");
  expect(await runtime.get("/add")).toBe("6");
  const global = join(runtime.dataDir, "runtime/context/global/global.json");
  await expect.poll(() => readFile(global, "utf8"), { timeout: 60_000 }).toContain("6");
  await runtime.apply(revision(2, flows), "full");
  expect(JSON.parse(await runtime.get("/read"))).toEqual([6, null, "x"]);
  expect(await readdir(join(runtime.dataDir, "runtime/context"))).not.toContain("gone");
  // A process that is stopped writes first.
  expect(await runtime.get("/add")).toBe("7");
  await runtime.restart(revision(2, flows));
  expect(JSON.parse(await runtime.get("/read"))).toEqual([7, null, "x"]);
});

test("operators read and write each store", async () => {
  await using runtime = await runtimeUnderTest({ contextStorage });
  await runtime.apply(revision(1, flows), "full");
  const global = { kind: "global" } as const;
  for (const store of ["memory", "file", "slow"]) {
    const place = { scope: global, key: "written.by[0]", store };
    expect(await runtime.call(setContext, { ...place, value: { n: store } })).toBe("done");
    expect(await runtime.call(getContext, place)).toMatchObject({ value: { n: store }, format: "object" });
  }
  const listed = await runtime.call(listContext, {});
  expect(listed).toMatchObject({ stores: ["memory", "file", "slow"] });
  const { scopes } = listed as Extract<typeof listed, { scopes: unknown }>;
  const keys = scopes.map(({ scope, store, keys }) => [scope.kind, store, ...keys].join(" "));
  expect(keys.toSorted()).toEqual([
    "flow slow ours",
    "global file written",
    "global memory written",
    "global slow written",
    "node file mine",
  ]);
  expect(await runtime.call(listContext, { store: "other" })).toEqual({
    missing: "store",
    stores: ["memory", "file", "slow"],
  });
});

test("files that can't be read are set aside, so that the flows start", async () => {
  const stored = {
    "global/global.json": `{"n": `,
    "T/flow.json": "[1]",
    "T/f.json": "null",
    "read-tab/flow.json": `{"kept": 1}`,
  };
  await using runtime = await runtimeUnderTest({ contextStorage }, (_, userDir) => write(userDir, stored));
  await runtime.apply(revision(1, flows), "full");
  expect(runtime.status().state).toBe("running");
  expect(JSON.parse(await runtime.get("/read"))).toEqual([null, null, 1]);
  expect(await readFile(join(runtime.dataDir, "runtime/context/global/global.json.unreadable"), "utf8")).toBe(`{"n": `);
  await runtime.untilLogged(/^the context file global.global\.json contains no JSON: it was renamed to/);
  await runtime.untilLogged(/^the context file T.f\.json contains no JSON object/);
});

/** A database of context in memory, as the store of a service has it. `isUsable`: whether it can be used now. */
function createDatabase(stored: readonly ContextValue[] = []) {
  const values = new Map(stored.map((value) => [JSON.stringify([value.store, value.scope, value.key]), value]));
  const state = { isUsable: true, holder: 1 };
  const assertUsable = () => {
    if (!state.isUsable) {
      throw new Error("the database is down");
    }
  };
  const database: ContextStore = {
    async read() {
      assertUsable();
      return [...values.values()];
    },
    async write(changes, token) {
      assertUsable();
      if (token !== undefined && token !== state.holder) {
        return false;
      }
      for (const { json, ...place } of changes) {
        const key = JSON.stringify([place.store, place.scope, place.key]);
        values.delete(key);
        if (json !== undefined) {
          values.set(key, { ...place, json });
        }
      }
      return true;
    },
  };
  return { database, state, values: () => [...values.values()] };
}

describe("in the store of the service", () => {
  const contextStorage: ContextStorage = { default: { module: "database", config: { flushInterval: 0 } } };
  const shared = [
    ...endpoint(
      "add",
      `const n = (global.get("n") || 0) + 1; global.set("n", n); flow.set("list[0]", n); msg.payload = n`,
    ),
    tab("T"),
    functionNode("f", {
      z: "T",
      initialize: `context.set("mine", 1); global.set("large", "x".repeat(300 * 1024)); const o = {}; o.o = o; global.set("loop", o)`,
    }),
  ];
  const value = (scope: string, key: string, json: string) => ({ store: "default", scope, key, json });

  test("values are written, read by the next process, and removed with their nodes", async () => {
    const { database, state, values } = createDatabase([value("global", "n", "4"), value("gone", "x", "1")]);
    await using runtime = await runtimeUnderTest({ contextStorage, contextDatabase: database });
    await runtime.apply(revision(1, shared), "full");
    expect(await runtime.get("/add")).toBe("5");
    const written = [value("add-tab", "list", "[5]"), value("f:T", "mine", "1"), value("global", "n", "5")];
    await expect
      .poll(() => values().toSorted((a, b) => (a.scope < b.scope ? -1 : 1)), { timeout: 60_000 })
      .toEqual(written);
    await runtime.untilLogged(/\["global","large"\] of context is larger than 256 KiB: it is not kept in the store/);
    await runtime.untilLogged(/\["global","loop"\] of context can't be represented as JSON/);
    // What is not written yet is written before the next process reads.
    state.isUsable = false;
    expect(await runtime.get("/add")).toBe("6");
    await runtime.untilLogged(/the context of the flows can't be written, which is retried: the database is down/);
    state.isUsable = true;
    await runtime.restart(revision(1, shared));
    expect(await runtime.get("/add")).toBe("7");
    expect(await runtime.call(getContext, { scope: { kind: "flow", id: "add-tab" }, key: "list[0]" })).toMatchObject({
      value: 7,
    });
    await runtime.apply(revision(2, shared.slice(0, -2)), "flows");
    await expect.poll(values, { timeout: 60_000 }).not.toContainEqual(value("f:T", "mine", "1"));
  });

  test("values that flows have forged keep no flows from starting", async () => {
    const { database } = createDatabase([
      value("constructor", "keys", "1"),
      value("toString", "call", "1"),
      value("__proto__", "toString", "1"),
      value("global", "__proto__", `{"polluted": true}`),
      value("global", "bad", `{"a": `),
      value("global", "n", "4"),
    ]);
    await using runtime = await runtimeUnderTest({ contextStorage, contextDatabase: database });
    await runtime.apply(revision(1, shared), "full");
    expect(await runtime.get("/add")).toBe("5");
    expect(await runtime.call(getContext, { scope: { kind: "global" }, key: "polluted" })).not.toHaveProperty("value");
  });

  test("flows start when their values can be read", async () => {
    const { database, state } = createDatabase([value("global", "n", "4")]);
    state.isUsable = false;
    await using runtime = await runtimeUnderTest({ contextStorage, contextDatabase: database });
    const applied = runtime.apply(revision(1, shared), "full");
    await runtime.untilLogged(
      /the context of the flows can't be read, and they start when it can: the database is down/,
    );
    expect(runtime.status().state).toBe("starting");
    state.isUsable = true;
    await applied;
    expect(await runtime.get("/add")).toBe("5");
  });
});
