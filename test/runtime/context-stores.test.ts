import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { getContext, listContext, setContext } from "../../src/runtime/context-procedures.ts";
import type { ContextStorage } from "../../src/runtime/flow-settings.ts";
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
  // The next process is created before the current one writes this.
  runtime.distrust("a test");
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
