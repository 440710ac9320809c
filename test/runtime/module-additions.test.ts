import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { nodesOf, templatesOf, writeModules } from "../modules/write-modules.ts";
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

const modulesDir = (runtime: OpenedRuntime): string => join(runtime.dataDir, "modules");

describe("modules that are added while flows run", () => {
  test("are loaded, and the flows go on", async () => {
    await using runtime = await runtimeUnderTest({}, (dir) => writeModules(dir, [one]));
    await runtime.apply(revision(1, counter), "full");
    const pid = runtime.processId();
    expect(await runtime.get("/count")).toBe("1");
    await writeModules(modulesDir(runtime), [one, two]);
    const added = await runtime.applyModules(revision(1, counter));
    expect(added).toMatchObject({ outcome: "running", isRestarted: false });
    expect([...(runtime.nodeTypes() ?? [])]).toEqual(expect.arrayContaining(["one", "two"]));
    expect(await runtime.get("/count")).toBe("2");
    await runtime.apply(revision(2, waiting("two")), "nodes");
    expect(runtime.status().state).toBe("running");
    expect(await runtime.get("/count")).toBe("3");
    expect(runtime.processId()).toBe(pid);
  });

  test("start the nodes that have waited for their types, beside those that run", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, counter), "full");
    expect(await runtime.get("/count")).toBe("1");
    expect(await runtime.apply(revision(2, waiting("one")), "nodes")).toMatchObject({ missingTypes: ["one"] });
    expect(await runtime.get("/count")).toBe("2");
    await writeModules(modulesDir(runtime), [two]);
    expect(await runtime.applyModules(revision(2, waiting("one")))).toMatchObject({
      outcome: "failed",
      missingTypes: ["one"],
      isRestarted: false,
    });
    await writeModules(modulesDir(runtime), [two, one]);
    expect(await runtime.applyModules(revision(2, waiting("one")))).toMatchObject({
      outcome: "running",
      isRestarted: false,
    });
    expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
    expect(await runtime.get("/count")).toBe("3");
  });

  test("start flows of which nothing has run, once", async () => {
    await using runtime = await runtimeUnderTest();
    const flows = [...waiting("one"), functionNode("b", { z: "T", initialize: `node.warn("started once")` })];
    expect(await runtime.apply(revision(1, flows), "full")).toMatchObject({ missingTypes: ["one"] });
    const pid = runtime.processId();
    await writeModules(modulesDir(runtime), [one]);
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(await runtime.get("/count")).toBe("1");
    expect(runtime.processId()).toBe(pid);
    expect(runtime.entries.filter(({ message }) => message === "started once")).toHaveLength(1);
  });

  test("can be loaded by function nodes, also those that have waited for them", async () => {
    await using runtime = await runtimeUnderTest({ moduleLists: { allow: ["*"], deny: ["denied"] } });
    const loading = (path: string, module: string) =>
      endpoint(path, "msg.payload = library.answer").map((node) =>
        node["type"] === "function" ? { ...node, libs: [{ var: "library", module }] } : node,
      );
    const flows = [...counter, ...loading("/library", "library")];
    await runtime.apply(revision(1, counter), "full");
    expect(await runtime.get("/count")).toBe("1");
    await runtime.apply(revision(2, flows), "nodes");
    expect(runtime.incompleteSeq()).toBe(2);
    await writeFiles(modulesDir(runtime), {
      "package.json": JSON.stringify({ dependencies: { library: "1.0.0", denied: "1.0.0" } }),
      "node_modules/library/index.js": `exports.answer = "42";`,
      "node_modules/denied/index.js": "",
    });
    expect(await runtime.applyModules(revision(2, flows))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(await runtime.get("/library")).toBe("42");
    expect(await runtime.get("/count")).toBe("2");
    await runtime.apply(revision(3, [...flows, ...loading("/denied", "denied")]), "nodes");
    expect(runtime.status()).toMatchObject({ state: "failed", message: expect.stringContaining("denied") as string });
  });

  test("are found by the next deployment", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, counter), "full");
    const pid = runtime.processId();
    await writeModules(modulesDir(runtime), [one]);
    runtime.reloadModules();
    expect(await runtime.apply(revision(2, waiting("one")), "nodes")).toMatchObject({ outcome: "running" });
    expect(runtime.processId()).toBe(pid);
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

  test("are loaded after others that are being loaded", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, counter), "full");
    const folder = modulesDir(runtime);
    await writeModules(folder, [one]);
    await writeFiles(folder, {
      "node_modules/contrib-one/nodes.js": `const { existsSync } = require("node:fs");
        module.exports = async (RED) => {
          RED.log.warn("contrib-one is being loaded");
          while (!existsSync(${JSON.stringify(join(folder, "proceed"))})) {
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
          (${nodesOf(["one"]).replace("module.exports = ", "").replace(/;$/, "")})(RED);
        };`,
    });
    const first = runtime.applyModules(revision(1, counter));
    await runtime.untilLogged(/contrib-one is being loaded/);
    await writeModules(folder, [two]);
    const second = runtime.applyModules(revision(1, counter));
    await writeFiles(folder, { proceed: "" });
    expect(await Promise.all([first, second])).toMatchObject([{ isRestarted: false }, { isRestarted: false }]);
    expect([...(runtime.nodeTypes() ?? [])]).toEqual(expect.arrayContaining(["one", "two"]));
  });

  test("leave the flows as they are if they can't be loaded, and the log has the reason", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, counter), "full");
    expect(await runtime.get("/count")).toBe("1");
    await writeModules(modulesDir(runtime), [{ name: "contrib-faulty", types: ["faulty"] }]);
    await writeFiles(join(modulesDir(runtime), "node_modules/contrib-faulty"), {
      "nodes.js": `throw new Error("it is faulty");`,
      "nodes.html": templatesOf(["faulty"]),
    });
    const added = await runtime.applyModules(revision(1, counter));
    expect(added).toMatchObject({ outcome: "running", isRestarted: false });
    await runtime.untilLogged(/^\[contrib-faulty\/all\] Error: it is faulty/);
    expect(runtime.nodeTypes()?.has("faulty")).toBe(false);
    expect(await runtime.get("/count")).toBe("2");
  });

  test("are left out if they are denied, and the log does not take them for missing", async () => {
    await using runtime = await runtimeUnderTest({ moduleLists: { allow: ["*"], deny: ["contrib-one@<2.0.0"] } });
    await runtime.apply(revision(1, counter), "full");
    await writeModules(modulesDir(runtime), [one, two]);
    expect(await runtime.applyModules(revision(1, counter))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(runtime.nodeTypes()?.has("two")).toBe(true);
    expect(runtime.nodeTypes()?.has("one")).toBe(false);
    expect(runtime.entries.filter(({ message }) => message.includes("contrib-one"))).toEqual([]);
  });

  /** Packages whose nodes need those of others. */
  const writeNeeding = async (runtime: OpenedRuntime, needs: Record<string, readonly string[]>): Promise<void> => {
    await writeModules(
      modulesDir(runtime),
      Object.keys(needs).map((name) => ({ name, types: [name] })),
    );
    for (const [name, dependencies] of Object.entries(needs)) {
      const section = { nodes: { all: "nodes.js" }, dependencies };
      await writeFiles(join(modulesDir(runtime), "node_modules", name), {
        "package.json": JSON.stringify({ name, version: "1.0.0", "node-red": section }),
      });
    }
  };

  test("are left out if their nodes need themselves, and the log has the circle", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, counter), "full");
    const pid = runtime.processId();
    await writeNeeding(runtime, { alone: [], one: ["two"], two: ["three"], three: ["one"], user: ["alone", "one"] });
    expect(await runtime.applyModules(revision(1, counter))).toMatchObject({ outcome: "running", isRestarted: false });
    await runtime.untilLogged(/^\[one\] is not loaded, .*: its nodes need themselves: one → two → three → one$/);
    expect([...(runtime.nodeTypes() ?? [])].filter((type) => /^(?:alone|one|two|three|user)$/.test(type))).toEqual([
      "alone",
    ]);
    expect(runtime.processId()).toBe(pid);
  });

  test("are loaded once each, however many ways there are to the nodes that they need", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, counter), "full");
    const layers = Array.from({ length: 30 }, (_, at) => [`a${at}`, `b${at}`]);
    const needs = layers.flatMap((layer, at) => layer.map((name) => [name, layers[at + 1] ?? []] as const));
    await writeNeeding(runtime, { ...Object.fromEntries(needs), lacking: ["absent"], user: ["lacking", "a0"] });
    expect(await runtime.applyModules(revision(1, counter))).toMatchObject({ outcome: "running", isRestarted: false });
    const types = new Set(runtime.nodeTypes());
    expect(layers.flat().filter((name) => !types.has(name))).toEqual([]);
    await runtime.untilLogged(/^\[lacking\] its nodes need those of packages that are not loaded: absent$/);
    await runtime.untilLogged(/^\[user\] its nodes need those of packages that are not loaded: lacking$/);
  });

  test("are loaded in a new process if they end the one that runs, and left out there", async () => {
    await using runtime = await runtimeUnderTest({ restart: { backoffMs: 1, maxBackoffMs: 1, safeModeAfter: 2 } });
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
  const path = join(modulesDir(runtime), "package.json");
  const manifest = JSON.parse(await readFile(path, "utf8")) as object;
  await writeFile(path, JSON.stringify({ ...manifest, flowgate: { disabled } }));
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

/** Without a code cache, which would be made of all sets. */
const deferring = { codeCacheDir: undefined };

const disabledCore = ["node-red/exec", "node-red/httprequest"];

describe("modules and sets of nodes that are disabled and enabled while flows run", () => {
  test("are given up and loaded again beside the flows, which go on", async () => {
    await using runtime = await runtimeUnderTest({}, (dir) => writeModules(dir, [one]));
    await runtime.apply(revision(1, counter), "full");
    const pid = runtime.processId();
    expect(await runtime.get("/count")).toBe("1");
    await writeModules(modulesDir(runtime), [one, two]);
    await disable(runtime, "contrib-one", "node-red/exec");
    const applied = { outcome: "running", isRestarted: false };
    expect(await runtime.applyModules(revision(1, counter))).toMatchObject(applied);
    expect(known(runtime, "one", "two", "exec")).toEqual(["two"]);
    const flows = [...counter, tab("T"), exec, { ...onTab("b"), type: "one", wires: [] }];
    expect(await runtime.apply(revision(2, flows), "nodes")).toMatchObject({ missingTypes: ["exec", "one"] });
    await disable(runtime, "node-red/exec");
    expect(await runtime.applyModules(revision(2, flows))).toMatchObject({
      outcome: "failed",
      missingTypes: ["exec"],
      isRestarted: false,
    });
    await disable(runtime);
    expect(await runtime.applyModules(revision(2, flows))).toMatchObject(applied);
    expect(known(runtime, "one", "two", "exec")).toEqual(["one", "two", "exec"]);
    expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
    expect(await runtime.get("/count")).toBe("2");
    expect(runtime.processId()).toBe(pid);
  });

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
    await using runtime = await runtimeUnderTest(
      { ...deferring, active: async () => revision(1, flows) },
      async (dir) => {
        await writeModules(dir, [{ name: "observer", types: ["observer"] }]);
        await writeFiles(dir, {
          "package.json": JSON.stringify({ flowgate: { disabled: disabledCore } }),
          "node_modules/observer/nodes.js": `module.exports = (RED) =>
          RED.events.on("flows:starting", () => RED.log.warn("flows are started"));`,
        });
      },
    );
    await runtime.untilState("failed");
    const starts = () => runtime.entries.filter(({ message }) => message === "flows are started").length;
    const before = starts();
    await disable(runtime);
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(await runtime.get("/count")).toBe("1");
    expect(starts() - before).toBe(1);
  });

  test("leave their types to modules that are added, also where nodes of them have run", async () => {
    await using runtime = await runtimeUnderTest(deferring);
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

  test("are given up in a new process if they have plugins", async () => {
    const hook = `module.exports = (RED) => {
      RED.plugins.registerPlugin("mark", {});
      RED.hooks.add("preDeliver.mark", ({ msg }) => { msg.mark = "marked"; });
    };`;
    await using runtime = await runtimeUnderTest({}, (dir) =>
      writeFiles(dir, {
        "package.json": JSON.stringify({ dependencies: { plugin: "1.0.0" } }),
        "node_modules/plugin/package.json": JSON.stringify({
          name: "plugin",
          version: "1.0.0",
          "node-red": { plugins: { mark: "plugin.js" } },
        }),
        "node_modules/plugin/plugin.js": hook,
      }),
    );
    const flows = endpoint("/mark", `msg.payload = msg.mark ?? "unmarked"`);
    await runtime.apply(revision(1, flows), "full");
    expect(await runtime.get("/mark")).toBe("marked");
    await disable(runtime, "plugin");
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject({ outcome: "running", isRestarted: true });
    expect(await runtime.get("/mark")).toBe("unmarked");
    await disable(runtime);
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(await runtime.get("/mark")).toBe("marked");
  });

  test("are not loaded if they are added with a set that is disabled", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, counter), "full");
    await writeModules(modulesDir(runtime), [one, two]);
    await writeFiles(modulesDir(runtime), { "node_modules/contrib-one/nodes.js": "process.exit(7);" });
    await disable(runtime, "contrib-one/all");
    expect(await runtime.applyModules(revision(1, counter))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(known(runtime, "one", "two")).toEqual(["two"]);
  });

  test("are given up in a new process if the flows use them", async () => {
    await using runtime = await runtimeUnderTest({}, (dir) => writeModules(dir, [one]));
    await runtime.apply(revision(1, waiting("one")), "full");
    expect(await runtime.get("/count")).toBe("1");
    await disable(runtime, "contrib-one");
    expect(await runtime.applyModules(revision(1, waiting("one")))).toMatchObject({
      outcome: "failed",
      missingTypes: ["one"],
      isRestarted: true,
    });
    await disable(runtime);
    expect(await runtime.applyModules(revision(1, waiting("one")))).toMatchObject({
      outcome: "running",
      isRestarted: false,
    });
  });

  test("are given up in a new process if function nodes have loaded them", async () => {
    await using runtime = await runtimeUnderTest({}, (dir) =>
      writeFiles(dir, {
        "package.json": JSON.stringify({ dependencies: { library: "1.0.0" } }),
        "node_modules/library/package.json": JSON.stringify({ name: "library", version: "1.0.0" }),
        "node_modules/library/index.js": `exports.answer = "42";`,
      }),
    );
    const flows = endpoint("/library", "msg.payload = library.answer").map((node) =>
      node["type"] === "function" ? { ...node, libs: [{ var: "library", module: "library" }] } : node,
    );
    await runtime.apply(revision(1, flows), "full");
    expect(await runtime.get("/library")).toBe("42");
    await disable(runtime, "library");
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject({ outcome: "failed", isRestarted: true });
    await disable(runtime);
    expect(await runtime.applyModules(revision(1, flows))).toMatchObject({ outcome: "running", isRestarted: false });
    expect(await runtime.get("/library")).toBe("42");
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
