import { mkdtempDisposable, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../cli/run-command.ts";
import { type NpmRegistry, openNpmRegistry, pack } from "../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, templatesOf } from "../../packages/runtime/test/modules/write-modules.ts";
import { createDatabase } from "../postgres/postgres.ts";
import { type Deployment, deploy, readRuntime, tryDeploy } from "./deploy.ts";
import { type Node, functionNode, tab } from "./flow-builders.ts";
import { bearer, json, v2 } from "./rest.ts";
import { type Service, eventually, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";

/** A module whose nodes set the payload to its version, and flows that answer with it. Tests that share a service have one each. */
function versioned(name: string) {
  const packageOf = (version: string) => ({
    name,
    version,
    manifest: { "node-red": { nodes: { all: "nodes.js" } } },
    files: {
      "nodes.js": `module.exports = (RED) => {
      RED.nodes.registerType("${name}", function (config) {
        RED.nodes.createNode(this, config);
        this.on("input", (message, send) => send({ ...message, payload: ${JSON.stringify(version)} }));
        ${version.startsWith("3") ? `this.error("broken");` : ""}
      });
    };`,
      "nodes.html": templatesOf([name]),
    },
  });
  const flows: Node[] = [
    tab("T"),
    { id: "in", type: "http in", ...place, url: "/version", method: "get", wires: [["one"]] },
    { id: "one", type: name, ...place, wires: [["out"]] },
    { id: "out", type: "http response", ...place, wires: [] },
  ];
  return {
    name,
    packages: ["1.0.0", "2.0.0", "3.0.0"].map(packageOf),
    flows,
    at: (version: string) => [{ name, version }],
  };
}

const place = { z: "T", x: 100, y: 100 };

const contribOne = versioned("contrib-one");
const { flows, at: one } = contribOne;
const reverted = versioned("contrib-reverted");
const hashed = versioned("contrib-hashed");
const updated = versioned("contrib-updated");
const synced = versioned("contrib-synced");
const filed = versioned("contrib-filed");
const proposed = versioned("contrib-proposed");

const packages = [
  ...[contribOne, reverted, hashed, updated, synced, filed, proposed].flatMap((each) => each.packages),
  { name: "lib", version: "1.5.0", files: { "index.js": `module.exports = () => "lib";` } },
  { name: "contrib-slow", version: "1.0.0", files: {}, stalls: true },
];

const integrity = expect.stringMatching(/^sha512-/) as string;

/** Changes of modules that require a new process start one all the same. */
const runtime = { freshProcess: "never" };

const setFlows = (service: Service, body: Deployment, headers = {}) => tryDeploy(service, body, "full", headers);

/** The modules of a plan, and its text. */
async function plan(service: Service, body: Deployment) {
  const send = (headers = {}) =>
    service.send("POST", "/flows:plan", { headers: { ...json, ...v2, ...headers }, body: JSON.stringify(body) });
  const [reply, { body: text }] = await Promise.all([send(), send({ accept: "text/plain" })]);
  return { ...(reply.json() as { modules: unknown[] }), text };
}

async function modulesOf(service: Service, rev: string) {
  const reply = await service.send("GET", `/revisions/${rev}?view=FULL`);
  return (reply.json() as { modules?: { name: string; version: string }[] }).modules ?? [];
}

type Headers = Readonly<Record<string, string>>;

/** What is installed, or the version of one module. */
async function installed(service: Service, headers: Headers = {}, name?: string): Promise<string[]> {
  const { modules } = (await service.send("GET", "/modules", { headers })).json() as {
    modules: { name: string; version: string }[];
  };
  return modules
    .filter((each) => name === undefined || each.name === name)
    .map(({ name, version }) => `${name}@${version}`);
}

async function activeRev(service: Service): Promise<string> {
  const reply = await service.send("GET", "/flows", { headers: v2 });
  return (reply.json() as { rev: string }).rev;
}

async function post(service: Service, path: string, body: object = {}) {
  const reply = await service.send("POST", path, { headers: json, body: JSON.stringify(body) });
  return { status: reply.status, headers: reply.headers, body: reply.json() as { rev: string } };
}

let registry: NpmRegistry;
beforeAll(async () => {
  registry = await openNpmRegistry(() => packages);
});
afterAll(() => registry?.[Symbol.asyncDispose]());

describe("a deployment with modules", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({
      config: { modules: { registry: registry.url, deny: ["contrib-denied"] }, runtime },
    });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("installs them before its flows start, which a plan says; the revision has them with their hashes", async () => {
    const planned = await plan(service, { flows, modules: one("1.0.0") });
    expect(planned.modules).toEqual([
      { name: "contrib-one", version: "1.0.0", nodeIds: [], state: "missing", flows: [] },
    ]);
    expect(planned.text).toContain("module: contrib-one@1.0.0, missing\n");
    const reply = await setFlows(service, { flows, modules: one("1.0.0") });
    expect(reply).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "running" } });
    expect(await service.get("/version")).toBe("1.0.0");
    const { rev } = reply.json() as { rev: string };
    expect(await modulesOf(service, rev)).toEqual([{ name: "contrib-one", version: "1.0.0", integrity }]);

    expect((await plan(service, { flows, modules: one("^1.0.0") })).modules).toEqual([
      {
        name: "contrib-one",
        version: "1.0.0",
        nodeIds: ["one"],
        state: "present",
        installedVersion: "1.0.0",
        flows: ["T"],
      },
    ]);
    const upgrade = await plan(service, { flows, modules: one("2.0.0") });
    expect(upgrade.modules).toMatchObject([{ version: "2.0.0", state: "upgraded", installedVersion: "1.0.0" }]);
    expect(upgrade.text).toContain("module: contrib-one@2.0.0 instead of 1.0.0, for one\n");
  });

  test("of one that the registry does not have is refused", async () => {
    const absent = { name: "node-red-contrib-absent", version: "1.0.0" };
    const reply = await setFlows(service, { flows, modules: [absent] });
    expect([reply.status, reply.json()]).toEqual([
      400,
      {
        code: "module_failed",
        message:
          "node-red-contrib-absent: the registry has no package node-red-contrib-absent. The modules remain as they were",
      },
    ]);
  });

  test("undo and restore bring modules back, also without the registry, and a comparison says so", async () => {
    const first = await activeRev(service);
    const second = await deploy(service, { flows, modules: one("2.0.0") });
    expect(await service.get("/version")).toBe("2.0.0");
    const compared = (await service.send("GET", `/revisions/${first}:diff?base=${second}`)).json();
    expect(compared).toMatchObject({
      modules: [{ name: "contrib-one", version: "1.0.0", state: "upgraded", installedVersion: "2.0.0" }],
    });
    await registry[Symbol.asyncDispose]();
    const undone = await post(service, "/flows:undo");
    expect(undone).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "running" } });
    expect(await service.get("/version")).toBe("1.0.0");
    expect(await modulesOf(service, undone.body.rev)).toEqual(await modulesOf(service, first));
    expect((await post(service, `/revisions/${second}:restore`)).status).toBe(200);
    expect(await service.get("/version")).toBe("2.0.0");

    // What is not in the cache any more can't be brought back.
    await rm(join(service.dataDir, "npm-cache"), { recursive: true });
    const before = await activeRev(service);
    expect(await post(service, `/revisions/${first}:restore`)).toMatchObject({
      status: 503,
      body: {
        code: "registry_unavailable",
        message: "contrib-one: the registry can't be reached (ECONNREFUSED). The modules remain as they were",
      },
    });
    expect([await activeRev(service), await service.get("/version")]).toEqual([before, "2.0.0"]);
  });

  test.each<[object, number, string]>([
    [{ name: "contrib-absent", version: "1.0.0" }, 503, "contrib-absent: the registry can't be reached"],
    [{ name: "contrib-denied", version: "1.0.0" }, 403, "contrib-denied may not be installed"],
    [{ name: "../x", version: "1.0.0" }, 400, "modules[0].name: must be the name of an npm package"],
    [{ name: "Node-RED", version: "1.0.0" }, 400, "modules[0].name: Node-RED can't be added: the names node-red and"],
    [{ name: "x", version: "npm:node-red" }, 400, "modules[0].version: must be a version, range or tag"],
    [{ name: "x", version: "file:/x" }, 400, "modules[0].version: must be a version, range or tag"],
    [{ name: "x", version: "1.0.0", integrity: "md5-x" }, 400, "modules[0].integrity: must be the hash"],
  ])("of %j is refused, and nothing changes", async (module, status, message) => {
    const before = await activeRev(service);
    const reply = await setFlows(service, { flows: [tab("other")], modules: [module] });
    expect(reply).toMatchObject({ status, body: expect.stringContaining(message) });
    expect(await activeRev(service)).toBe(before);
    expect(await installed(service)).toEqual(["contrib-one@2.0.0"]);
    expect(await readRuntime(service)).toMatchObject({ state: "running" });
  });
});

describe("with a registry", () => {
  let own: NpmRegistry;
  beforeAll(async () => {
    own = await openNpmRegistry(() => packages);
  });
  afterAll(() => own?.[Symbol.asyncDispose]());

  const modules = () => ({ registry: own.url, deny: ["contrib-denied"] });

  describe("without users", () => {
    let service: Service;
    /** Has other flows, which need not run. */
    let source: Service;
    beforeAll(async () => {
      service = await startService({ config: { modules: modules(), runtime } });
      source = await startService({ config: { modules: modules(), ...withoutRuntime } });
    });
    afterAll(async () => {
      await service?.[Symbol.asyncDispose]();
      await source?.[Symbol.asyncDispose]();
    });

    test("an automatic undo brings the modules back", async () => {
      await deploy(service, { flows: reverted.flows, modules: reverted.at("1.0.0") });
      const reply = await setFlows(
        service,
        { flows: reverted.flows, modules: reverted.at("3.0.0") },
        { "service-deployment-on-failure": "undo" },
      );
      expect(reply.headers["service-deployment-outcome"]).toBe("undone");
      expect(await service.get("/version")).toBe("1.0.0");
      expect(await installed(service, {}, reverted.name)).toEqual(["contrib-reverted@1.0.0"]);
    });

    test("a package that has another hash than the deployment names is refused", async () => {
      const named = [{ name: hashed.name, version: "1.0.0", integrity: `sha512-${"a".repeat(86)}==` }];
      const reply = await setFlows(service, { flows: hashed.flows, modules: named });
      expect(reply).toMatchObject({ status: 400, body: expect.stringContaining("another package of this version") });
      expect(await installed(service, {}, hashed.name)).toEqual([]);
    });

    test("a changed module, and a module of a function, belong to the active revision", async () => {
      const withLib: Node[] = [...updated.flows, functionNode("f", { z: "T", libs: [{ var: "lib", module: "lib" }] })];
      const rev = await deploy(service, { flows: withLib });
      expect(await modulesOf(service, rev)).toEqual([]);
      expect(
        (await post(service, "/modules", { name: "contrib-updated", version: "1.0.0", deferRestart: true })).body,
      ).not.toHaveProperty("outcome");
      expect(await post(service, "/modules", { name: "lib" })).toMatchObject({ body: { outcome: "running" } });
      expect(await modulesOf(service, rev)).toMatchObject([
        { name: "contrib-updated", version: "1.0.0" },
        { name: "lib", version: "1.5.0" },
      ]);
      const next = await deploy(service, { flows: [tab("T")] });
      expect(await modulesOf(service, next)).toEqual([]);
    });

    test("export writes the modules beside the flows, sync deploys them, and sync --check names missing ones", async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
      await deploy(source, { flows: synced.flows, modules: synced.at("1.0.0") });
      const run = (service: Service, ...args: string[]) => runCommand([...args, "--server", service.url]);
      expect((await run(source, "export", folder.path)).code).toBe(0);
      expect(await readFile(join(folder.path, "modules"), "utf8")).toMatch(
        /^# Written by .*\n- name: contrib-synced\n {2}version: "1\.0\.0"\n {2}integrity: sha512-\S+\n$/,
      );
      const check = await run(service, "sync", folder.path, "--check");
      expect([check.code, check.stderr]).toEqual([2, "flowgate: The module contrib-synced 1.0.0 is not installed.\n"]);
      expect(await run(service, "sync", folder.path)).toMatchObject({ code: 0 });
      expect(await service.get("/version")).toBe("1.0.0");
      expect(await run(service, "sync", folder.path, "--check")).toMatchObject({ code: 0 });
      await run(service, "module", "update", "contrib-synced@2.0.0");
      const changed = await run(service, "sync", folder.path, "--check");
      expect([changed.code, changed.stderr]).toEqual([
        2,
        "flowgate: The module contrib-synced 1.0.0 is not installed: 2.0.0 is.\n",
      ]);
      expect(await run(service, "sync", folder.path)).toMatchObject({ code: 0 });
      expect(await installed(service, {}, synced.name)).toEqual(["contrib-synced@1.0.0"]);
      await deploy(source, { flows: [tab("T")] });
      expect((await run(source, "export", folder.path)).code).toBe(0);
      expect(await readdir(folder.path)).not.toContain("modules");
    });

    test("export to a file writes the modules beside it, and deploy, plan and diff read them", async () => {
      await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
      const rev = await deploy(source, { flows: filed.flows, modules: filed.at("1.0.0") });
      const run = (service: Service, ...args: string[]) => runCommand([...args, "--server", service.url]);
      const file = join(folder.path, "flows.json");
      expect(await run(source, "export", file)).toMatchObject({
        code: 0,
        stderr: `Exported revision ${rev.slice(0, 8)}, 4 nodes, to ${file}, and its modules to ${file}.modules\n`,
      });
      expect(await readdir(folder.path)).toEqual(["flows.json", "flows.json.modules"]);
      expect(JSON.parse(await readFile(file, "utf8"))).toHaveLength(filed.flows.length);
      expect((await run(service, "plan", file)).stdout).toContain("module: contrib-filed@1.0.0, missing\n");
      const differs = await run(source, "diff", file);
      expect([differs.code, differs.stderr]).toEqual([0, ""]);
      expect(await run(service, "deploy", file, "--yes")).toMatchObject({ code: 0 });
      expect(await service.get("/version")).toBe("1.0.0");
      expect(await modulesOf(service, await activeRev(service))).toEqual(await modulesOf(source, rev));

      // The file of modules is removed with the last module, unless someone has written it.
      await deploy(source, { flows: [tab("T")] });
      expect((await run(source, "export", file)).code).toBe(0);
      expect(await readdir(folder.path)).toEqual(["flows.json"]);
      await writeFile(`${file}.modules`, "- name: contrib-filed\n  version: 1.0.0\n");
      expect((await run(source, "export", file)).code).toBe(0);
      expect(await readdir(folder.path)).toContain("flows.json.modules");
      await deploy(source, { flows: filed.flows, modules: filed.at("1.0.0") });
      const before = await readFile(file, "utf8");
      expect(await run(source, "export", file)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("flows.json.modules: was not written by an export: move or remove it"),
      });
      expect(await readFile(file, "utf8")).toBe(before);
    });
  });

  describe("with users", () => {
    const users = [
      user("deployer", "flows.write"),
      user("ada", "*"),
      user("bob", ["read", "flows.approve"]),
      user("admin", "*"),
    ];
    const as = async (username: string, scope = "*"): Promise<Headers> =>
      bearer(await login(service, { username, scope }));
    /** Of a module, in the audit log. */
    async function installations(name: string) {
      const reply = await service.send("GET", "/audit?kind=module_installed", { headers: await as("admin") });
      const { entries } = reply.json() as { entries: { subject: string }[] };
      return entries.filter(({ subject }) => subject.startsWith(`${name}@`));
    }
    let service: Service;
    beforeAll(async () => {
      service = await startService({ config: { modules: modules(), runtime, adminAuth: { users } } });
    });
    afterAll(() => service?.[Symbol.asyncDispose]());

    test("installing requires modules.write, deploying what is installed does not, and undo does not", async () => {
      const deployer = await as("deployer", "flows.write");
      const admin = await as("admin");
      const refused = await setFlows(service, { flows, modules: one("1.0.0") }, deployer);
      expect(refused.status).toBe(401);
      expect(refused.headers["www-authenticate"]).toContain('scope="modules.write"');
      expect((await setFlows(service, { flows, modules: one("1.0.0") }, admin)).status).toBe(200);
      expect((await setFlows(service, { flows, modules: one("1.0.0") }, deployer)).status).toBe(200);
      expect((await setFlows(service, { flows, modules: one("2.0.0") }, admin)).status).toBe(200);
      const undone = await service.send("POST", "/flows:undo", { headers: { ...json, ...deployer }, body: "{}" });
      expect(undone).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "running" } });
      expect(await installations("contrib-one")).toMatchObject([
        { subject: "contrib-one@1.0.0", user: "deployer", detail: expect.stringContaining("instead of 2.0.0") },
        { subject: "contrib-one@2.0.0", user: "admin" },
        { subject: "contrib-one@1.0.0", user: "admin" },
      ]);
    });

    test("a proposal installs its modules when it is approved, by someone who may do that", async () => {
      const [ada, bob, admin] = await Promise.all([as("ada"), as("bob", "read flows.approve"), as("admin")]);
      const call = async (who: Headers, path: string, body?: object) => {
        const init =
          body === undefined ? { headers: who } : { headers: { ...who, ...json, ...v2 }, body: JSON.stringify(body) };
        const { status, headers, body: text } = await service.send(body === undefined ? "GET" : "POST", path, init);
        // A 401 has no body.
        return { status, headers, body: JSON.parse(text || "{}") as { id: string; digest: string; modules: object[] } };
      };
      const { body: proposal } = await call(ada, "/proposals", {
        flows: proposed.flows,
        modules: proposed.at("1.0.0"),
      });
      expect(proposal).toMatchObject({ state: "open", modules: proposed.at("1.0.0") });
      const path = `/proposals/${proposal.id}`;
      expect((await call(bob, `${path}:plan`)).body.modules).toMatchObject([
        { ...proposed.at("1.0.0")[0], state: "missing" },
      ]);
      expect(await installed(service, admin, proposed.name)).toEqual([]);

      const { digest } = proposal;
      const refused = await call(bob, `${path}:approve`, { digest });
      expect(refused.status).toBe(401);
      expect(refused.headers["www-authenticate"]).toContain('scope="modules.write"');
      const approved = await call(admin, `${path}:approve`, { digest });
      expect(approved).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "running" } });
      expect(await service.get("/version", admin)).toBe("1.0.0");
      expect(await installations(proposed.name)).toMatchObject([{ subject: "contrib-proposed@1.0.0", user: "admin" }]);

      // What is installed is no change, and needs no permission to install.
      expect(await call(ada, "/proposals", { flows: proposed.flows, modules: proposed.at("1.0.0") })).toMatchObject({
        status: 400,
        body: { code: "nothing_proposed" },
      });
      const present = (
        await call(ada, "/proposals", { flows: [...proposed.flows, tab("new")], modules: proposed.at("^1.0.0") })
      ).body;
      expect(await call(bob, `/proposals/${present.id}:approve`, { digest: present.digest })).toMatchObject({
        status: 200,
      });
      // Modules alone can be proposed.
      const upgrade = (
        await call(ada, "/proposals", { flows: [...proposed.flows, tab("new")], modules: proposed.at("2.0.0") })
      ).body;
      expect((await call(bob, `/proposals/${upgrade.id}:plan`)).body.modules).toMatchObject([
        { ...proposed.at("2.0.0")[0], state: "upgraded", installedVersion: "1.0.0" },
      ]);
      expect(await call(admin, `/proposals/${upgrade.id}:approve`, { digest: upgrade.digest })).toMatchObject({
        status: 200,
      });
      expect(await service.get("/version", admin)).toBe("2.0.0");
    });

    test("a proposal is refused for modules that may not be installed, and is not approved if they were changed in the store", async () => {
      const [ada, admin] = await Promise.all([as("ada"), as("admin")]);
      const propose = (modules: object[]) =>
        service.send("POST", "/proposals", {
          headers: { ...ada, ...json, ...v2 },
          body: JSON.stringify({ flows, modules }),
        });
      expect(await propose([{ name: "contrib-denied" }])).toMatchObject({
        status: 403,
        body: expect.stringContaining("contrib-denied may not be installed"),
      });
      expect(await propose([{ name: "node-red" }])).toMatchObject({
        status: 400,
        body: expect.stringContaining("modules[0].name: node-red can't be added"),
      });
      expect(await propose([{ name: "../x" }])).toMatchObject({
        status: 400,
        body: expect.stringContaining("modules[0].name: must be"),
      });
      const { id, digest } = (await propose(one("1.0.0"))).json() as { id: string; digest: string };
      {
        using db = new DatabaseSync(join(service.dataDir, "flowgate.db"));
        db.prepare("UPDATE proposal SET modules = replace(modules, '1.0.0', '2.0.0') WHERE id = ?").run(id);
      }
      const reply = await service.send("POST", `/proposals/${id}:approve`, {
        headers: { ...admin, ...json },
        body: JSON.stringify({ digest }),
      });
      expect(reply).toMatchObject({ status: 409, body: expect.stringContaining("does not match its digest") });
    });
  });

  test("undo installs with modules.write only where changes need an approval", async () => {
    const users = [user("deployer", "flows.write"), user("admin", "*")];
    const approvals = { required: ["Invoices"] };
    const config = { modules: modules(), adminAuth: { users }, approvals, ...withoutRuntime };
    await using service = await startService({ config });
    const deployer = bearer(await login(service, { username: "deployer", scope: "flows.write" }));
    const admin = bearer(await login(service, { username: "admin" }));
    const undo = (headers: Readonly<Record<string, string>>) =>
      service.send("POST", "/flows:undo", { headers: { ...json, ...headers }, body: "{}" });
    for (const version of ["1.0.0", "2.0.0"]) {
      expect((await setFlows(service, { flows, modules: one(version) }, admin)).status).toBe(200);
    }
    const refused = await undo(deployer);
    expect(refused.status).toBe(401);
    expect(refused.headers["www-authenticate"]).toContain('scope="modules.write"');
    expect(await installed(service, admin)).toEqual(["contrib-one@2.0.0"]);
    expect((await undo(admin)).status).toBe(200);
    expect(await installed(service, admin)).toEqual(["contrib-one@1.0.0"]);
  });

  test("a service that is killed during an installing deployment has the old state", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
    const dataDir = join(folder.path, "data");
    let rev: string;
    {
      await using service = await startService({ dataDir, config: { modules: modules(), ...withoutRuntime } });
      rev = await deploy(service, { flows, modules: one("1.0.0") });
      const slow = [...one("2.0.0"), { name: "contrib-slow", version: "1.0.0" }];
      void setFlows(service, { flows: [tab("lost")], modules: slow }).catch(() => {});
      await own.untilRequested("contrib-slow");
      await service.kill9();
    }
    await using service = await startService({ dataDir, config: { modules: modules(), runtime } });
    expect(await activeRev(service)).toBe(rev);
    expect(await installed(service)).toEqual(["contrib-one@1.0.0"]);
    expect(await service.get("/version")).toBe("1.0.0");
    expect(await deploy(service, { flows, modules: one("2.0.0") })).not.toBe(rev);
    expect(await service.get("/version")).toBe("2.0.0");
  });

  test("a service whose folder lacks the modules of the active revision installs them when it starts", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
    const dataDir = join(folder.path, "data");
    {
      await using service = await startService({ dataDir, config: { modules: modules(), ...withoutRuntime } });
      await deploy(service, { flows, modules: one("1.0.0") });
    }
    await rm(join(dataDir, "modules"), { recursive: true });
    await using service = await startService({ dataDir, config: { modules: modules() } });
    await eventually(async () => expect(await service.get("/version")).toBe("1.0.0"));
    expect(await installed(service)).toEqual(["contrib-one@1.0.0"]);
  });
});

describe("with replicas", () => {
  let own: NpmRegistry;
  beforeAll(async () => {
    own = await openNpmRegistry(() => packages);
  });
  afterAll(() => own?.[Symbol.asyncDispose]());

  const configOf = (url: string, registryUrl: string) => ({
    store: url,
    credentialSecret: "a secret that all replicas share",
    runtime: { mode: "one", leaseMs: 2_000 },
    modules: { registry: registryUrl },
  });

  test("each installs the modules of the active revision, uploaded ones too, and runs the flows when the other has ended", async () => {
    await using database = await createDatabase();
    const config = configOf(database.url, own.url);
    await using first = await startService({ config });
    await using second = await startService({ config });
    const upload = await pack({
      name: "contrib-own",
      version: "1.0.0",
      manifest: { "node-red": { nodes: { all: "nodes.js" } } },
      files: { "nodes.js": nodesOf(["own"]), "nodes.html": templatesOf(["own"]) },
    });
    expect(await post(second, "/modules", { tarball: upload.toString("base64") })).toMatchObject({ status: 201 });
    const all: Node[] = [...flows, { id: "own", type: "own", z: "T", x: 1, y: 1, wires: [] }];
    const reply = await setFlows(second, { flows: all, modules: one("1.0.0") }, { "service-deployment-wait": "1" });
    expect(reply).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "running" } });
    expect(await first.get("/version")).toBe("1.0.0");
    for (const replica of [first, second]) {
      expect(await installed(replica)).toEqual(["contrib-one@1.0.0", "contrib-own@1.0.0"]);
      expect(replica.log()).not.toContain("in a new process");
    }
    // A module that is changed at one replica is changed at the other.
    await post(second, "/modules", { name: "contrib-one", version: "2.0.0" });
    await eventually(async () => expect(await first.get("/version")).toBe("2.0.0"));
    await first.kill9();
    await eventually(async () => expect(await second.get("/version")).toBe("2.0.0"));
  });

  test("one that can't install them says why, and leaves the flows to the other", async () => {
    await using database = await createDatabase();
    await using lacking = await startService({ config: configOf(database.url, "http://127.0.0.1:1") });
    await using able = await startService({ config: configOf(database.url, own.url) });
    expect(await readRuntime(lacking)).toMatchObject({ state: "running" });
    await setFlows(able, { flows, modules: one("1.0.0") });
    await eventually(async () => expect(await readRuntime(able)).toMatchObject({ state: "running" }));
    await eventually(async () => expect(await able.get("/version")).toBe("1.0.0"));
    expect(await readRuntime(lacking)).toMatchObject({
      state: "standby",
      message: expect.stringContaining("contrib-one: the registry can't be reached (ECONNREFUSED)"),
    });
  });
});
