import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import type { Revision } from "../src/revision.ts";
import { nodesOf, type TestModule, writeModules } from "./modules/write-modules.ts";
import { type OpenedRuntime, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, functionNode, onTab, tab } from "./flow-builders.ts";
import { writeFiles } from "./planted-code.ts";

const one = { name: "contrib-one", types: ["one"] };
const two = { name: "contrib-two", types: ["two"] };

/** Counts its calls in memory. */
const counter = endpoint(
  "/count",
  `const n = (context.get("n") ?? 0) + 1; context.set("n", n); msg.payload = String(n)`,
);

const waiting = (type: string) => [...counter, tab("T"), { ...onTab("a"), type, wires: [] }];

const loading = (path: string, module: string) =>
  endpoint(path, "msg.payload = library.answer").map((node) =>
    node["type"] === "function" ? { ...node, libs: [{ var: "library", module }] } : node,
  );

const modulesDir = (runtime: OpenedRuntime): string => join(runtime.dataDir, "modules");

const readManifest = async (runtime: OpenedRuntime): Promise<object> =>
  JSON.parse(await readFile(join(modulesDir(runtime), "package.json"), "utf8").catch(() => "{}")) as object;

/** Adds modules to those that are installed, with other files in place of theirs. */
async function add(runtime: OpenedRuntime, modules: readonly TestModule[], files: Record<string, string> = {}) {
  const { dependencies = {} } = (await readManifest(runtime)) as { dependencies?: object };
  const added = Object.fromEntries(modules.map(({ name }) => [name, "1.0.0"]));
  await writeModules(modulesDir(runtime), modules);
  await writeFiles(modulesDir(runtime), {
    "package.json": JSON.stringify({ dependencies: { ...dependencies, ...added } }),
    ...files,
  });
}

let seq = 0;

function next(flows: readonly FlowNode[]): Revision {
  seq += 1;
  return revision(seq, flows);
}

const applied = { outcome: "running", isRestarted: false };

describe("modules that are added while flows run", () => {
  let runtime: OpenedRuntime;
  let deployed: Revision;
  beforeAll(async () => {
    const moduleLists = { allow: ["*"], deny: ["denied", "contrib-denied@<2.0.0"] };
    runtime = await runtimeUnderTest({ moduleLists }, (dir) => writeModules(dir, [one]));
  });
  afterAll(() => runtime?.[Symbol.asyncDispose]());
  beforeEach(async () => {
    // Nothing remains of the counter before.
    await runtime.apply(next([]), "nodes");
    deployed = next(counter);
    await runtime.apply(deployed, "nodes");
  });

  test("are loaded, and the flows go on", async () => {
    const pid = runtime.processId();
    expect(await runtime.get("/count")).toBe("1");
    await add(runtime, [two]);
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    expect([...(runtime.nodeTypes() ?? [])]).toEqual(expect.arrayContaining(["one", "two"]));
    expect(await runtime.get("/count")).toBe("2");
    await runtime.apply(next(waiting("two")), "nodes");
    expect(runtime.status().state).toBe("running");
    expect(await runtime.get("/count")).toBe("3");
    expect(runtime.processId()).toBe(pid);
  });

  test("start the nodes that have waited for their types, beside those that run", async () => {
    expect(await runtime.get("/count")).toBe("1");
    const flows = next(waiting("late"));
    expect(await runtime.apply(flows, "nodes")).toMatchObject({ missingTypes: ["late"] });
    expect(await runtime.get("/count")).toBe("2");
    await add(runtime, [{ name: "contrib-other", types: ["other"] }]);
    expect(await runtime.applyModules(flows)).toMatchObject({
      outcome: "failed",
      missingTypes: ["late"],
      isRestarted: false,
    });
    await add(runtime, [{ name: "contrib-late", types: ["late"] }]);
    expect(await runtime.applyModules(flows)).toMatchObject(applied);
    expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
    expect(await runtime.get("/count")).toBe("3");
  });

  test("can be loaded by function nodes, also those that have waited for them", async () => {
    const flows = [...counter, ...loading("/library", "library")];
    expect(await runtime.get("/count")).toBe("1");
    const incomplete = next(flows);
    await runtime.apply(incomplete, "nodes");
    expect(runtime.incompleteSeq()).toBe(incomplete.seq);
    await add(runtime, [{ name: "library" }, { name: "denied" }], {
      "node_modules/library/index.js": `exports.answer = "42";`,
      "node_modules/denied/index.js": "",
    });
    expect(await runtime.applyModules(incomplete)).toMatchObject(applied);
    expect(await runtime.get("/library")).toBe("42");
    expect(await runtime.get("/count")).toBe("2");
    await runtime.apply(next([...flows, ...loading("/denied", "denied")]), "nodes");
    expect(runtime.status()).toMatchObject({ state: "failed", message: expect.stringContaining("denied") as string });
  });

  test("are found by the next deployment", async () => {
    const pid = runtime.processId();
    await add(runtime, [{ name: "contrib-found", types: ["found"] }]);
    runtime.reloadModules();
    expect(await runtime.apply(next(waiting("found")), "nodes")).toMatchObject({ outcome: "running" });
    expect(runtime.processId()).toBe(pid);
  });

  test("are loaded after others that are being loaded", async () => {
    const proceed = join(modulesDir(runtime), "proceed");
    await add(runtime, [{ name: "contrib-slow", types: ["slow"] }], {
      "node_modules/contrib-slow/nodes.js": `const { existsSync } = require("node:fs");
        module.exports = async (RED) => {
          RED.log.warn("contrib-slow is being loaded");
          while (!existsSync(${JSON.stringify(proceed)})) {
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
          (${nodesOf(["slow"]).replace("module.exports = ", "").replace(/;$/, "")})(RED);
        };`,
    });
    const first = runtime.applyModules(deployed);
    await runtime.untilLogged(/contrib-slow is being loaded/);
    await add(runtime, [{ name: "contrib-next", types: ["next"] }]);
    const second = runtime.applyModules(deployed);
    await writeFile(proceed, "");
    expect(await Promise.all([first, second])).toMatchObject([{ isRestarted: false }, { isRestarted: false }]);
    expect([...(runtime.nodeTypes() ?? [])]).toEqual(expect.arrayContaining(["slow", "next"]));
  });

  test("leave the flows as they are if they can't be loaded, and the log has the reason", async () => {
    expect(await runtime.get("/count")).toBe("1");
    await add(runtime, [{ name: "contrib-faulty", types: ["faulty"] }], {
      "node_modules/contrib-faulty/nodes.js": `throw new Error("it is faulty");`,
    });
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    await runtime.untilLogged(/^\[contrib-faulty\/all\] Error: it is faulty/);
    expect(runtime.nodeTypes()?.has("faulty")).toBe(false);
    expect(await runtime.get("/count")).toBe("2");
  });

  test("are left out if they are denied, and the log does not take them for missing", async () => {
    await add(runtime, [
      { name: "contrib-denied", types: ["denied"] },
      { name: "contrib-allowed", types: ["allowed"] },
    ]);
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    expect(known(runtime, "denied", "allowed")).toEqual(["allowed"]);
    expect(runtime.entries.filter(({ message }) => message.includes("contrib-denied"))).toEqual([]);
  });

  /** Packages whose nodes need those of others. */
  const addNeeding = (needs: Readonly<Record<string, readonly string[]>>): Promise<void> =>
    add(
      runtime,
      Object.keys(needs).map((name) => ({ name, types: [name] })),
      Object.fromEntries(
        Object.entries(needs).map(([name, dependencies]) => [
          `node_modules/${name}/package.json`,
          JSON.stringify({ name, version: "1.0.0", "node-red": { nodes: { all: "nodes.js" }, dependencies } }),
        ]),
      ),
    );

  test("are loaded once each, however many ways there are to the nodes that they need", async () => {
    const layers = Array.from({ length: 30 }, (_, at) => [`a${at}`, `b${at}`]);
    const needs = layers.flatMap((layer, at) => layer.map((name) => [name, layers[at + 1] ?? []] as const));
    await addNeeding({ ...Object.fromEntries(needs), lacking: ["absent"], user: ["lacking", "a0"] });
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    const types = new Set(runtime.nodeTypes());
    expect(layers.flat().filter((name) => !types.has(name))).toEqual([]);
    await runtime.untilLogged(/^\[lacking\] its nodes need those of packages that are not loaded: absent$/);
    await runtime.untilLogged(/^\[user\] its nodes need those of packages that are not loaded: lacking$/);
  });

  test("are left out if their nodes need themselves, and the log has the circle", async () => {
    const pid = runtime.processId();
    await addNeeding({ alone: [], c1: ["c2"], c2: ["c3"], c3: ["c1"], dependent: ["alone", "c1"] });
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    await runtime.untilLogged(/^\[c1\] is not loaded, .*: its nodes need themselves: c1 → c2 → c3 → c1$/);
    expect(known(runtime, "alone", "c1", "c2", "c3", "dependent")).toEqual(["alone"]);
    expect(runtime.processId()).toBe(pid);
  });
});

describe("modules that are added in a process", () => {
  test("start flows of which nothing has run, once", async () => {
    await using runtime = await runtimeUnderTest();
    const flows = [...waiting("one"), functionNode("b", { z: "T", initialize: `node.warn("started once")` })];
    expect(await runtime.apply(revision(1, flows), "full")).toMatchObject({ missingTypes: ["one"] });
    const pid = runtime.processId();
    await writeModules(modulesDir(runtime), [one]);
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject(applied);
    expect(await runtime.get("/count")).toBe("1");
    expect(runtime.processId()).toBe(pid);
    expect(runtime.entries.filter(({ message }) => message === "started once")).toHaveLength(1);
  });

  test("are loaded while the flows are being started, which have them then", async () => {
    await using runtime = await runtimeUnderTest({ active: async () => revision(1, waiting("one")) });
    await writeModules(modulesDir(runtime), [one]);
    expect(await runtime.applyModules(revision(1, waiting("one")))).toMatchObject({
      outcome: "running",
      isRestarted: false,
    });
    expect(await runtime.get("/count")).toBe("1");
  });

  test("are loaded in a new process if they end the one that runs, and left out there", async () => {
    await using runtime = await runtimeUnderTest({
      restart: { backoffMs: 1, maxBackoffMs: 1 },
      safeMode: { exits: 2 },
    });
    await runtime.apply(revision(1, counter), "full");
    await writeModules(modulesDir(runtime), [{ name: "contrib-faulty", types: ["faulty"] }]);
    await writeFiles(join(modulesDir(runtime), "node_modules/contrib-faulty"), { "nodes.js": "process.exit(7);" });
    const outcomes: string[] = [];
    runtime.onResult(({ result: { outcome } }) => outcomes.push(outcome));
    const added = await runtime.applyModules(revision(1, counter));
    expect(added).toMatchObject({ outcome: "running", isRestarted: true });
    expect(runtime.status().message).toMatch(/^without added modules.* it exited with code 7$/);
    // The revision has not failed.
    expect(outcomes).toEqual(["running"]);
    expect(await runtime.get("/count")).toBe("1");
  });
});

test("modules that are added are loaded without namespaces too", async () => {
  await using runtime = await runtimeUnderTest({ isolate: "off" });
  await runtime.apply(revision(1, counter), "full");
  const pid = runtime.processId();
  await writeModules(modulesDir(runtime), [one]);
  expect(await runtime.applyModules(revision(1, counter))).toMatchObject({ outcome: "running", isRestarted: false });
  expect(runtime.nodeTypes()?.has("one")).toBe(true);
  expect(runtime.processId()).toBe(pid);
});

/** Disables what is listed, and nothing else. */
async function disable(runtime: OpenedRuntime, ...disabled: readonly string[]): Promise<void> {
  const manifest = { ...(await readManifest(runtime)), flowgate: { disabled } };
  await writeFile(join(modulesDir(runtime), "package.json"), JSON.stringify(manifest));
}

const known = (runtime: OpenedRuntime, ...types: readonly string[]): string[] =>
  types.filter((type) => runtime.nodeTypes()?.has(type));

const exec = {
  ...onTab("a"),
  type: "exec",
  command: "",
  addpay: "",
  append: "",
  useSpawn: "false",
  wires: [[], [], []],
};

describe("modules and sets of nodes that are disabled and enabled while flows run", () => {
  let runtime: OpenedRuntime;
  beforeAll(async () => {
    const plugin = { name: "plugin", version: "1.0.0", "node-red": { plugins: { mark: "plugin.js" } } };
    runtime = await runtimeUnderTest({}, async (dir) => {
      await writeModules(dir, [one, { name: "plugin" }, { name: "library" }]);
      await writeFiles(join(dir, "node_modules"), {
        "plugin/package.json": JSON.stringify(plugin),
        "plugin/plugin.js": `module.exports = (RED) => {
          RED.plugins.registerPlugin("mark", {});
          RED.hooks.add("preDeliver.mark", ({ msg }) => { msg.mark = "marked"; });
        };`,
        "library/index.js": `exports.answer = "42";`,
      });
    });
  });
  afterAll(() => runtime?.[Symbol.asyncDispose]());
  beforeEach(async () => void (await runtime.apply(next([]), "nodes")));

  async function deploy(flows: readonly FlowNode[]): Promise<Revision> {
    const deployed = next(flows);
    expect(await runtime.apply(deployed, "nodes")).toMatchObject({ outcome: "running" });
    return deployed;
  }

  test("are given up and loaded again beside the flows, which go on", async () => {
    const deployed = await deploy(counter);
    const pid = runtime.processId();
    expect(await runtime.get("/count")).toBe("1");
    await add(runtime, [two]);
    await disable(runtime, "contrib-one", "node-red/exec");
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    expect(known(runtime, "one", "two", "exec")).toEqual(["two"]);
    const needing = next([...counter, tab("T"), exec, { ...onTab("b"), type: "one", wires: [] }]);
    expect(await runtime.apply(needing, "nodes")).toMatchObject({ missingTypes: ["exec", "one"] });
    await disable(runtime, "node-red/exec");
    expect(await runtime.applyModules(needing)).toMatchObject({
      outcome: "failed",
      missingTypes: ["exec"],
      isRestarted: false,
    });
    await disable(runtime);
    expect(await runtime.applyModules(needing)).toMatchObject(applied);
    expect(known(runtime, "one", "two", "exec")).toEqual(["one", "two", "exec"]);
    expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
    expect(await runtime.get("/count")).toBe("2");
    expect(runtime.processId()).toBe(pid);
  });

  test("are not loaded if they are added with a set that is disabled", async () => {
    const deployed = await deploy(counter);
    const ending = { name: "contrib-ending", types: ["ending"] };
    await add(runtime, [ending, { name: "contrib-three", types: ["three"] }], {
      "node_modules/contrib-ending/nodes.js": "process.exit(7);",
    });
    await disable(runtime, "contrib-ending/all");
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    expect(known(runtime, "ending", "three")).toEqual(["three"]);
    await rm(join(modulesDir(runtime), "node_modules/contrib-ending"), { recursive: true });
  });

  test("are given up in a new process if they have plugins", async () => {
    const deployed = await deploy(endpoint("/mark", `msg.payload = msg.mark ?? "unmarked"`));
    expect(await runtime.get("/mark")).toBe("marked");
    await disable(runtime, "plugin");
    expect(await runtime.applyModules(deployed)).toMatchObject({ outcome: "running", isRestarted: true });
    expect(await runtime.get("/mark")).toBe("unmarked");
    await disable(runtime);
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    expect(await runtime.get("/mark")).toBe("marked");
  });

  test("are given up in a new process if the flows use them", async () => {
    const deployed = await deploy(waiting("one"));
    expect(await runtime.get("/count")).toBe("1");
    await disable(runtime, "contrib-one");
    expect(await runtime.applyModules(deployed)).toMatchObject({
      outcome: "failed",
      missingTypes: ["one"],
      isRestarted: true,
    });
    await disable(runtime);
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
  });

  test("are given up in a new process if function nodes have loaded them", async () => {
    const deployed = await deploy(loading("/library", "library"));
    expect(await runtime.get("/library")).toBe("42");
    await disable(runtime, "library");
    expect(await runtime.applyModules(deployed)).toMatchObject({ outcome: "failed", isRestarted: true });
    await disable(runtime);
    expect(await runtime.applyModules(deployed)).toMatchObject(applied);
    expect(await runtime.get("/library")).toBe("42");
  });
});

const disabledCore = ["node-red/exec", "node-red/httprequest"];

describe("modules and sets of nodes that are disabled and enabled", () => {
  test("are loaded for the first time if they were disabled at the start of the process", async () => {
    await using runtime = await runtimeUnderTest(
      { active: async () => revision(1, [...counter, tab("T"), exec]) },
      async (dir) => {
        await writeModules(dir, [one]);
        const manifest = {
          dependencies: { "contrib-one": "1.0.0" },
          flowgate: { disabled: ["contrib-one/all", "node-red/exec"] },
        };
        await writeFiles(dir, { "package.json": JSON.stringify(manifest) });
      },
    );
    await runtime.untilState("failed");
    const pid = runtime.processId();
    expect(known(runtime, "one", "exec")).toEqual([]);
    await disable(runtime);
    expect(await runtime.applyModules(revision(1, [...counter, tab("T"), exec]))).toMatchObject({
      outcome: "running",
      isRestarted: false,
    });
    expect(known(runtime, "one", "exec")).toEqual(["one", "exec"]);
    expect(runtime.processId()).toBe(pid);
  });

  test("start flows that have waited for them once", async () => {
    const flows = [...counter, tab("T"), exec, { ...onTab("c"), type: "http request", wires: [[]] }];
    await using runtime = await runtimeUnderTest({ active: async () => revision(1, flows) }, async (dir) => {
      await writeModules(dir, [{ name: "observer", types: ["observer"] }]);
      await writeFiles(dir, {
        "package.json": JSON.stringify({ flowgate: { disabled: disabledCore } }),
        "node_modules/observer/nodes.js": `module.exports = (RED) =>
          RED.events.on("flows:starting", () => RED.log.warn("flows are started"));`,
      });
    });
    await runtime.untilState("failed");
    const starts = () => runtime.entries.filter(({ message }) => message === "flows are started").length;
    const before = starts();
    await disable(runtime);
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(await runtime.get("/count")).toBe("1");
    expect(starts() - before).toBe(1);
  });

  test("leave their types to modules that are added, also where nodes of them have run", async () => {
    await using runtime = await runtimeUnderTest();
    const flows = [...counter, tab("T"), exec];
    await runtime.apply(revision(1, flows), "full");
    await runtime.apply(revision(2, counter), "nodes");
    await disable(runtime, ...disabledCore);
    expect(await runtime.applyModules(revision(2, counter))).toMatchObject({ outcome: "running", isRestarted: false });
    const never = { name: "contrib-request", types: ["http request"] };
    const before = { name: "contrib-exec", types: ["exec"] };
    await writeModules(modulesDir(runtime), [never]);
    await disable(runtime, ...disabledCore);
    expect(await runtime.applyModules(revision(2, counter))).toMatchObject({ outcome: "running", isRestarted: false });
    const request = { ...onTab("c"), type: "http request", wires: [[]] };
    expect(await runtime.apply(revision(3, [...counter, tab("T"), request]), "nodes")).toMatchObject({
      outcome: "running",
    });
    await writeModules(modulesDir(runtime), [never, before]);
    await disable(runtime, ...disabledCore);
    expect(await runtime.applyModules(revision(3, flows))).toMatchObject({ outcome: "running", isRestarted: true });
    expect(known(runtime, "exec", "http request")).toEqual(["exec", "http request"]);
  });

  test("are disabled in a process that has no flows yet", async () => {
    await using runtime = await runtimeUnderTest({}, (dir) => writeModules(dir, [one]));
    await disable(runtime, "contrib-one");
    await runtime.restart(revision(1, counter));
    expect(known(runtime, "one")).toEqual([]);
    expect(await runtime.get("/count")).toBe("1");
  });
});

test("flows have the modules that have replaced others while their process was starting", async () => {
  await using runtime = await runtimeUnderTest({}, (dir) => writeModules(dir, [one]));
  const pid = runtime.processId();
  await writeModules(`${modulesDir(runtime)}.next`, [two]);
  await rename(modulesDir(runtime), `${modulesDir(runtime)}.before`);
  await rename(`${modulesDir(runtime)}.next`, modulesDir(runtime));
  expect(await runtime.restart(revision(1, counter))).toMatchObject({ outcome: "running" });
  expect(runtime.processId()).not.toBe(pid);
  expect([runtime.nodeTypes()?.has("one"), runtime.nodeTypes()?.has("two")]).toEqual([false, true]);
});

test("flows are started again when the folder of modules was replaced", async () => {
  await using runtime = await runtimeUnderTest({}, (dir) => writeModules(dir, [one]));
  await runtime.apply(revision(1, counter), "full");
  const pid = runtime.processId();
  await writeModules(`${modulesDir(runtime)}.next`, [{ ...one, version: "2.0.0" }, two]);
  await rename(modulesDir(runtime), `${modulesDir(runtime)}.before`);
  await rename(`${modulesDir(runtime)}.next`, modulesDir(runtime));
  expect(await runtime.applyModules(revision(1, counter))).toMatchObject({ outcome: "running", isRestarted: true });
  expect(runtime.processId()).not.toBe(pid);
  expect(runtime.nodeTypes()?.has("two")).toBe(true);
});
