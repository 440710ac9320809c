import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { nodesOf, writeModules } from "./modules/write-modules.ts";
import { type OpenedRuntime, fixture, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape, functionNode, installProbe, probe, tab } from "./flow-builders.ts";
import { plantedCode, writeFiles } from "./planted-code.ts";

/** Code that writes files in the working directory. */
function writing(files: Readonly<Record<string, string>>): string {
  return `${escape} const load = (name) => host.getBuiltinModule(name);
    for (const [path, content] of Object.entries(${JSON.stringify(files)})) {
      load("fs").mkdirSync(load("path").dirname(path), { recursive: true });
      load("fs").writeFileSync(path, content);
    }`;
}

test("loads no code at the next start that flows have written", async () => {
  await using runtime = await runtimeUnderTest();
  const loaded = () => readFile(join(runtime.dataDir, "runtime", "loaded"), "utf8").catch(() => "");
  await runtime.apply(revision(1, endpoint("/write", writing(plantedCode))), "full");
  expect(await runtime.get("/write")).toBe("{}");
  for (const path of Object.keys(plantedCode)) {
    expect(await readFile(join(runtime.dataDir, "runtime", path), "utf8")).toBe(plantedCode[path]);
  }
  const socket = { id: "socket", type: "websocket-listener", path: "/socket", wholemsg: "false" };
  const corrected = [
    ...endpoint("/home", `${escape} msg.payload = host.env.HOME`),
    socket,
    { id: "in", type: "websocket in", z: "/home-tab", x: 1, y: 1, server: "socket", wires: [[]] },
  ];
  await runtime.restart(revision(2, corrected));
  expect(runtime.status()).toMatchObject({ state: "running" });
  expect(await runtime.get("/home")).toBe(join(runtime.dataDir, "runtime"));
  expect(await loaded()).toBe("");
  await runtime.apply(revision(3, [tab("T"), { ...probe("a", "T"), type: "planted" }]), "nodes");
  expect(runtime.status()).toMatchObject({ state: "failed", message: "missing node types: planted" });
  expect(runtime.incompleteSeq()).toBe(3);
  const libs = [{ var: "library", module: "library" }];
  await runtime.apply(revision(4, [tab("T"), { ...functionNode("a", { z: "T" }), libs }]), "nodes");
  expect(runtime.status().state).toBe("failed");
  expect(runtime.incompleteSeq()).toBe(4);
  expect(await loaded()).toBe("");
});

describe("a process with added modules", () => {
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    const disabled = ["node-red/exec", "contrib-one/all", "disabled"];
    const dependencies = Object.fromEntries(
      ["contrib-one", "@scope/library", "denied", "disabled"].map((name) => [name, "1.0.0"]),
    );
    runtime = await runtimeUnderTest({ moduleLists: { allow: ["*"], deny: ["denied"] } }, async (modulesDir) => {
      await installProbe(modulesDir);
      await writeModules(modulesDir, [{ name: "contrib-one", types: ["one"] }]);
      await writeFiles(modulesDir, {
        "package.json": JSON.stringify({ dependencies, flowgate: { disabled } }),
        "node_modules/contrib-one/package.json": JSON.stringify({
          name: "contrib-one",
          version: "1.0.0",
          "node-red": { nodes: { all: "nodes.js", second: "second.js" } },
        }),
        "node_modules/contrib-one/second.js": nodesOf(["second"]),
        "node_modules/other/package.json": JSON.stringify({
          name: "node-red",
          version: "1.0.0",
          "node-red": { nodes: { a: "a.js" } },
        }),
        "node_modules/other/a.js": nodesOf(["planted"]),
        "node_modules/@scope/library/package.json": JSON.stringify({ name: "@scope/library", version: "1.0.0" }),
        "node_modules/@scope/library/index.js": "exports.answer = 42;",
        "node_modules/denied/index.js": "",
        "node_modules/disabled/index.js": "",
      });
    });
  });
  afterAll(() => runtime?.[Symbol.asyncDispose]());

  async function deploy(flows: readonly FlowNode[]) {
    seq += 1;
    return runtime.apply(revision(seq, flows), "nodes");
  }

  test("has their types, also Node-RED's own, but not those of disabled sets and of a package with its name", async () => {
    await deploy(endpoint("/ok", `msg.payload = "ok"`));
    expect(await runtime.get("/ok")).toBe("ok");
    const types = ["second", "inject", "exec", "one", "planted"];
    expect(types.filter((type) => runtime.nodeTypes()?.has(type))).toEqual(["second", "inject"]);
    const used = [tab("T"), { ...functionNode("a", { z: "T" }), type: "exec" }];
    expect(await deploy(used)).toMatchObject({ missingTypes: ["exec"] });
  });

  test("lets flows read them, and not write them", async () => {
    const path = "../modules/node_modules/node-red-contrib-probe/package.json";
    const code = `${escape} const fs = host.getBuiltinModule("fs");
      const outcome = (run) => { try { run(); return "done"; } catch (error) { return error.code; } };
      msg.payload = [
        () => fs.readFileSync("${path}"),
        () => fs.writeFileSync("${path}", "{}"),
        () => fs.writeFileSync("../modules/package.json", "{}"),
        () => fs.mkdirSync("../modules/nodes"),
        () => fs.rmSync("../modules/node_modules", { recursive: true }),
        () => fs.renameSync("../modules", "moved"),
        () => fs.linkSync("${path}", "linked"),
        () => fs.symlinkSync("../modules", "linked"),
      ].map(outcome)`;
    await deploy(endpoint("/try", code));
    const denied = Array.from({ length: 7 }, () => "ERR_ACCESS_DENIED");
    expect(JSON.parse(await runtime.get("/try"))).toEqual(["done", ...denied]);
  });

  test("lets function nodes load those that are permitted and enabled by their Setup tab", async () => {
    const loading = (module: string) =>
      endpoint("/answer", "msg.payload = String(library.answer)").map((node) =>
        node["type"] === "function" ? { ...node, libs: [{ var: "library", module }] } : node,
      );
    await deploy(loading("@scope/library"));
    expect(await runtime.get("/answer")).toBe("42");
    for (const module of ["denied", "disabled", "absent"]) {
      await deploy(loading(module));
      const message = expect.stringContaining(module) as string;
      expect(runtime.status()).toMatchObject({ state: "failed", message });
    }
    expect(runtime.incompleteSeq()).toBe(seq);
  });
});

describe("modules in the runtime's folder, where they were loaded before", () => {
  test("are named at the start, with the command that installs them, in a form that npm takes from a registry", async () => {
    await using runtime = await runtimeUnderTest({ entry: fixture("ready") }, async (modulesDir, userDir) => {
      await writeFiles(userDir, {
        "package.json": JSON.stringify({
          dependencies: {
            "node-red-contrib-one": "^1.0.0",
            "@scope/two": ">=2 <3",
            three: "git+ssh://git@example.com/three.git",
            "four; touch x": "1.0.0",
            "five.tgz": "1.0.0",
            six: "file:../six",
            "--prefix": "1.0.0",
            "../seven": "1.0.0",
            present: "1.0.0",
          },
        }),
        "node_modules/node-red-contrib-one/package.json": JSON.stringify({ version: "1.2.3" }),
      });
      await writeFiles(modulesDir, { "package.json": JSON.stringify({ dependencies: { present: "1.0.0" } }) });
    });
    const { message } = await runtime.untilLogged(/are not loaded/);
    expect(message).toBe(
      "the modules in runtime.dir are not loaded, since flows can write there: node-red-contrib-one, @scope/two, three, six. " +
        "Flows can have changed this list. Install those that you know with " +
        `"flowgate module install node-red-contrib-one@1.2.3 '@scope/two@>=2 <3' three six", then run "flowgate runtime restart"`,
    );
  });
});

test.each([
  ["while it is loaded", `process.exit(7);`, "it exited with code 7"],
  [
    "soon after, without flows",
    `setTimeout(() => process.exit(7), 1); module.exports = () => {};`,
    "it exited with code 7",
  ],
])(
  "a module that ends the process %s is left out after some times, and tried again by a restart",
  async (_, code, cause) => {
    const name = "node-red-contrib-faulty";
    const manifest = JSON.stringify({ name, version: "1.0.0", "node-red": { nodes: { faulty: "node.js" } } });
    await using runtime = await runtimeUnderTest(
      {
        active: async () => revision(1, endpoint("/ok", `msg.payload = "ok"`)),
        restart: { backoffMs: 1, maxBackoffMs: 1 },
        safeMode: { exits: 2 },
      },
      (modulesDir) =>
        writeFiles(join(modulesDir, "node_modules", name), {
          "package.json": manifest,
          "node.js": code,
          "node.html": "",
        }),
    );
    await runtime.untilState("running");
    expect(runtime.status().message).toContain(
      `without added modules, since it ended 2 times in a row before it had flows`,
    );
    expect(runtime.status().message).toContain(cause);
    expect(await runtime.get("/ok")).toBe("ok");
    await writeFiles(join(runtime.dataDir, "modules", "node_modules", name), {
      "node.js": "module.exports = () => {};",
    });
    await runtime.restart(revision(1, endpoint("/ok", `msg.payload = "ok"`)));
    expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
  },
);

test("added modules are not held responsible for a process that can't be started", async () => {
  await using runtime = await runtimeUnderTest(
    {
      launcher: { level: "none", user: undefined, message: undefined, command: ["/nonexistent/launcher"] },
      restart: { backoffMs: 1, maxBackoffMs: 1 },
      safeMode: { exits: 2 },
    },
    installProbe,
  );
  await runtime.untilLogged(/is restarting: it could not be started/, 4);
  expect(runtime.ownMessages.filter((message) => message.includes("without added modules"))).toEqual([]);
});
