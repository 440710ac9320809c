import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { globSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { DeferredSets, type RegisteredSet, deferrableSets } from "../src/child/deferred-sets.ts";
import { revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape, functionNode, onTab, tab } from "./flow-builders.ts";
import { writeFiles } from "./planted-code.ts";

const requireNodes = createRequire(createRequire(import.meta.url).resolve("@node-red/nodes"));

/** What a set does when it is loaded: the paths of what it calls of the runtime, and the types that it registers. */
async function effectsOf(file: string): Promise<{ effects: string[]; types: string[] }> {
  const effects: string[] = [];
  const types: string[] = [];
  const recorder = (path: string): object =>
    new Proxy(() => {}, {
      get: (_, name) => (typeof name === "symbol" ? undefined : recorder(`${path}.${name}`)),
      set: (_, name) => effects.push(`${path}.${String(name)} =`) > 0,
      apply(_, __, [type, , options]: [string, unknown, object | undefined]) {
        if (path === "RED.nodes.registerType") {
          types.push(type);
          effects.push(...Object.keys(options ?? {}).map((name) => `option ${name}`));
        } else {
          effects.push(path);
        }
        return recorder(`${path}()`);
      },
    });
  const settings = {};
  const red = new Proxy(
    {},
    {
      get: (_, name) =>
        name === "settings" ? settings : name === "httpNode" ? undefined : recorder(`RED.${String(name)}`),
    },
  );
  await (requireNodes(file) as (red: object) => unknown)(red);
  return { effects, types };
}

const files = globSync(join(dirname(requireNodes.resolve("@node-red/nodes")), "core/*/*.js"));
const nameOf = (file: string): string => basename(file, ".js").replace(/^\d+-/, "");

test.each(Object.entries(deferrableSets))(
  "the set %s only registers these types when it is loaded",
  async (name, expected) => {
    const [file = ""] = files.filter((path) => nameOf(path) === name);
    const { effects, types } = await effectsOf(file);
    expect(types.toSorted()).toEqual([...expected].toSorted());
    expect(effects.filter((effect) => effect !== "option credentials")).toEqual([]);
  },
);

test("a set that has other effects would be found", async () => {
  const effects = await Promise.all(
    ["debug", "function", "udp"].map((name) => effectsOf(files.find((path) => nameOf(path) === name) ?? "")),
  );
  expect(effects.map((each) => each.effects)).toEqual([
    expect.arrayContaining(["RED.log.addHandler", "RED.httpAdmin.post", "option settings"]),
    expect.arrayContaining(["option dynamicModuleList", "RED.library.register"]),
    expect.arrayContaining(["RED.httpAdmin.get"]),
  ]);
});

describe("sets", () => {
  const set = (name: string): RegisteredSet => ({ id: `node-red/${name}`, name, enabled: true, types: [] });

  /** Registers types as the flow runtime does, and its sets. */
  function create() {
    const constructors = new Map<string, string>();
    const warnings: string[] = [];
    const registry = { get: (type: string): unknown => constructors.get(type) };
    const registration = {
      registerType(of: string, type: string) {
        if (constructors.has(type)) {
          throw new Error(`${type} already registered`);
        }
        constructors.set(type, of);
      },
      registerSubflow(_set: string, _subflow: unknown) {},
    };
    const sets = new DeferredSets(registry, (warning) => warnings.push(warning));
    sets.follow(registration);
    const defer = (deferred: RegisteredSet, register: () => unknown = () => registration.registerType("own", "json")) =>
      sets.defer(deferred, () => register);
    return { constructors, warnings, registry, registration, sets, defer };
  }

  test("are loaded when a type is asked for, and have their types before", () => {
    const { constructors, registry, defer } = create();
    const json = set("JSON");
    defer(json)?.({});
    expect([json.types, constructors.size]).toEqual([["json"], 0]);
    expect(registry.get("json")).toBe("own");
  });

  test("are loaded before an added module registers a type of theirs, or a subflow that contains one", () => {
    const { constructors, registration, defer } = create();
    defer(set("JSON"))?.({});
    expect(() => registration.registerType("added", "json")).toThrow("json already registered");
    expect(constructors.get("json")).toBe("own");

    const other = create();
    other.defer(set("JSON"))?.({});
    other.registration.registerSubflow("added", { flow: [{ type: "json" }] });
    expect(other.constructors.get("json")).toBe("own");
  });

  test("are not loaded while they are disabled", () => {
    const { constructors, sets, defer } = create();
    const json = { ...set("JSON"), enabled: false };
    defer(json)?.({});
    sets.load("json");
    expect([json.types, constructors.size]).toEqual([["json"], 0]);
    json.enabled = true;
    sets.load("json");
    expect([json.types, constructors.size]).toEqual([["json"], 1]);
  });

  test("that can't be loaded are reported once, and have no types", async () => {
    for (const fail of [
      () => {
        throw new Error("damaged");
      },
      () => Promise.reject(new Error("damaged")),
    ]) {
      const { sets, registry, warnings, defer } = create();
      const json = set("JSON");
      defer(json, fail)?.({});
      sets.load("json");
      await sets.loaded();
      expect(registry.get("json")).toBeUndefined();
      expect(json).toMatchObject({ types: [], err: new Error("damaged") });
      expect(warnings).toEqual(["[node-red/JSON] Error: damaged"]);
    }
  });

  test("are waited for if they register their types after a while", async () => {
    const { sets, constructors, defer, registration } = create();
    const { promise, resolve } = Promise.withResolvers<void>();
    const json = set("JSON");
    defer(json, async () => {
      await promise;
      registration.registerType("own", "json");
    })?.({});
    sets.load("json");
    const loaded = sets.loaded();
    expect([json.types, constructors.size]).toEqual([["json"], 0]);
    resolve();
    await loaded;
    expect(constructors.get("json")).toBe("own");
  });

  test("are not deferred if they are not known, or if a type of theirs is registered", () => {
    const { constructors, defer } = create();
    expect(defer(set("constructor"))).toBeUndefined();
    expect(defer(set("debug"))).toBeUndefined();
    constructors.set("json", "of a plugin");
    expect(defer(set("JSON"))).toBeUndefined();
  });
});

describe("a runtime", () => {
  /** A flow that answers with the sets that its process has loaded. */
  const loaded = endpoint(
    "/loaded",
    `${escape}
     const { _cache } = host.getBuiltinModule("module");
     msg.payload = Object.keys(_cache).map((path) => /@node-red.nodes.core.\\w+.(.*)\\.js$/.exec(path)?.[1]).filter(Boolean)`,
  );

  test("knows all types, and has loaded only what its flows use", async () => {
    const flows = [tab("T"), { ...onTab("request"), type: "http request", wires: [[]] }, ...loaded];
    await using runtime = await runtimeUnderTest({ active: async () => revision(1, flows) });
    await runtime.untilState("running");
    expect([...(runtime.nodeTypes() ?? [])]).toEqual(expect.arrayContaining(Object.values(deferrableSets).flat()));
    const sets = JSON.parse(await runtime.get("/loaded")) as string[];
    expect(sets).toEqual(expect.arrayContaining(["21-httprequest", "21-httpin", "21-debug"]));
    expect(sets).not.toContain("10-mqtt");
  });

  const subflow = {
    id: "s",
    type: "subflow",
    name: "added",
    env: [],
    meta: { type: "added-subflow", module: "added" },
    in: [],
    out: [],
    flow: [
      { id: "json", type: "json", z: "s", x: 1, y: 1, wires: [[]] },
      { id: "request", type: "http request", z: "s", x: 1, y: 1, wires: [[]] },
    ],
  };

  const addSubflow = (modulesDir: string): Promise<void> =>
    writeFiles(modulesDir, {
      "package.json": JSON.stringify({ dependencies: { added: "1.0.0" } }),
      "node_modules/added/package.json": JSON.stringify({
        name: "added",
        version: "1.0.0",
        "node-red": { nodes: { added: "added.js" } },
      }),
      "node_modules/added/added.js": `module.exports = (RED) => RED.nodes.registerSubflow(${JSON.stringify(subflow)});`,
    });

  test("starts flows whose modules have subflows of its own types", async () => {
    await using runtime = await runtimeUnderTest(
      { active: async () => revision(1, [tab("T"), { ...onTab("sub"), type: "added-subflow", wires: [] }, ...loaded]) },
      addSubflow,
    );
    await runtime.untilState("running");
    const sets = JSON.parse(await runtime.get("/loaded")) as string[];
    expect(sets).toEqual(expect.arrayContaining(["21-httprequest", "70-JSON"]));
    expect(runtime.entries.filter(({ level }) => level === "error")).toEqual([]);
  });

  test("knows the types of its own in subflows of modules that are added, while it loads them", async () => {
    await using runtime = await runtimeUnderTest();
    await runtime.apply(revision(1, loaded), "full");
    await addSubflow(join(runtime.dataDir, "modules"));
    expect(await runtime.applyModules(revision(1, loaded))).toMatchObject({ outcome: "running", isRestarted: false });
    expect([...(runtime.nodeTypes() ?? [])]).toEqual(expect.arrayContaining(["added-subflow", "http request", "json"]));
  });

  test("starts flows in a new process if those of before keep it from loading their types", async () => {
    await using runtime = await runtimeUnderTest();
    const spoiler = functionNode("spoiler", {
      z: "T",
      initialize: `${escape}
        const { prototype } = host.getBuiltinModule("module");
        const { require } = prototype;
        prototype.require = function (id) {
          if (id === "cheerio") throw new Error("too many open files");
          return require.call(this, id);
        };`,
    });
    await runtime.apply(revision(1, [...loaded, tab("T"), spoiler]), "full");
    const pid = runtime.processId();
    const html = { ...onTab("a"), type: "html", wires: [[]] };
    expect(await runtime.apply(revision(2, [...loaded, tab("T"), html]), "nodes")).toMatchObject({
      outcome: "running",
    });
    await runtime.untilLogged(/^\[node-red\/HTML\] Error: too many open files/);
    expect(JSON.parse(await runtime.get("/loaded"))).toContain("70-HTML");
    expect(runtime.processId()).not.toBe(pid);
  });
});
