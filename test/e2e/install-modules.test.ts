import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtempDisposable, readFile, readdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { runCommand } from "../cli/run-command.ts";
import {
  type NpmRegistry,
  openNpmRegistry,
  pack,
  packFiles,
} from "../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, templatesOf, writeModules } from "../../packages/runtime/test/modules/write-modules.ts";
import { writeFiles } from "../../packages/runtime/test/planted-code.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { endpoint, tab } from "./flow-builders.ts";
import { bearer, json, type Reply } from "./rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";
import { type Seen, watch, watchProtocols } from "./watch-events.ts";

const sse = watchProtocols["SSE"] as (typeof watchProtocols)[string];

const withNodes = (...types: string[]) => ({
  manifest: { "node-red": { nodes: { all: "nodes.js" } } },
  files: { "nodes.js": nodesOf(types), "nodes.html": templatesOf(types) },
});
const script = { scripts: { install: 'echo "ran, with the compile cache $NODE_COMPILE_CACHE" > script-ran' } };

const packages = () => [
  { name: "contrib-one", version: "1.0.0", ...withNodes("one") },
  { name: "contrib-one", version: "1.1.0", ...withNodes("one") },
  { name: "contrib-one", version: "2.0.0", ...withNodes("one", "one more") },
  { name: "@scope/two", version: "1.0.0", ...withNodes("two") },
  { name: "contrib-denied", version: "1.0.0", ...withNodes("denied") },
  { name: "contrib-old", version: "1.0.0", ...withNodes("old") },
  { name: "contrib-script", version: "1.0.0", manifest: script },
  { name: "contrib-named-script", version: "1.0.0", manifest: { ...script, dependencies: { "contrib-script": "*" } } },
  { name: "contrib-no-file", version: "1.0.0", manifest: { "node-red": { nodes: { all: "absent.js" } } } },
  { name: "contrib-git", version: "1.0.0", manifest: { dependencies: { hidden: "git+ssh://git@127.0.0.1/x.git" } } },
  { name: "contrib-lacking", version: "1.0.0", manifest: { dependencies: { "no-such-package": "^1.0.0" } } },
  { name: "contrib-large", version: "1.0.0", files: { data: "x".repeat(3 * 1024 * 1024) } },
  { name: "contrib-slow", version: "1.0.0", ...withNodes("slow"), stalls: true },
];

let registry: NpmRegistry;
beforeAll(async () => {
  registry = await openNpmRegistry(packages);
});
afterAll(() => registry?.[Symbol.asyncDispose]());

type Sent = { readonly status: number; readonly body: Record<string, unknown> };

async function send(service: Service, method: string, path: string, body?: object): Promise<Sent> {
  const { status, body: text } = await service.send(method, path, {
    ...(body && { headers: json, body: JSON.stringify(body) }),
  });
  return { status, body: JSON.parse(text) as Record<string, unknown> };
}

async function versions(service: Service): Promise<string[]> {
  const { body } = await send(service, "GET", "/modules");
  return (body["modules"] as { name: string; version: string }[]).map(({ name, version }) => `${name}@${version}`);
}

const node = (id: string, type: string) => ({ id, type, z: "T", x: 1, y: 1, wires: [] });

describe("a service with a registry", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({
      config: {
        modules: {
          registry: registry.url,
          deny: ["contrib-denied", "contrib-old@<2"],
          scripts: ["contrib-named-script"],
        },
        // Each change of modules that requires a new process says so.
        runtime: { freshProcess: "never" },
      },
      // What flows, and those who start the service, could have written.
      prepare: (dataDir) =>
        writeFiles(dataDir, {
          "runtime/.npmrc": "registry=http://127.0.0.1:1\nignore-scripts=false\n",
          "modules/.npmrc": "registry=http://127.0.0.1:1\nignore-scripts=false\n",
        }),
      env: { npm_config_registry: "http://127.0.0.1:1", npm_config_ignore_scripts: "false" },
    });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("installs a module that the flows lack, and starts them; updates, disables, enables and removes it", async () => {
    await deploy(service, { flows: [tab("T"), node("a", "one")] });
    expect(await readRuntime(service)).toMatchObject({ state: "failed", message: "missing node types: one" });

    const installed = await send(service, "POST", "/modules", { name: "contrib-one", version: "^1.0.0" });
    expect(installed).toMatchObject({
      status: 201,
      body: {
        module: {
          name: "contrib-one",
          version: "1.1.0",
          integrity: expect.stringMatching(/^sha512-/) as string,
          types: ["one"],
          enabled: true,
          loaded: true,
          flows: ["T"],
          nodeCount: 1,
        },
        outcome: "running",
        restarted: false,
      },
    });
    expect(await readRuntime(service)).toMatchObject({ state: "running" });

    const updated = await send(service, "PATCH", "/modules/contrib-one", { version: "latest" });
    expect(updated).toMatchObject({
      status: 200,
      body: {
        module: { version: "2.0.0", types: ["one", "one more"], loaded: true },
        outcome: "running",
        restarted: true,
      },
    });

    const used = {
      code: "module_in_use",
      message:
        "the active flows have 1 node of contrib-one, and would not be started without it: remove them from the flows first, or set force",
    };
    expect(await send(service, "DELETE", "/modules/contrib-one")).toEqual({ status: 400, body: used });
    expect(await send(service, "PATCH", "/modules/contrib-one", { enabled: false })).toEqual({
      status: 400,
      body: used,
    });
    expect(await readRuntime(service)).toMatchObject({ state: "running" });

    const disabled = await send(service, "PATCH", "/modules/contrib-one", { enabled: false, force: true });
    expect(disabled).toMatchObject({
      status: 200,
      body: { module: { enabled: false, loaded: false }, outcome: "failed", missingTypes: ["one"], restarted: true },
    });
    expect(await send(service, "PATCH", "/modules/contrib-one", { enabled: true })).toMatchObject({
      status: 200,
      body: { module: { enabled: true, loaded: true }, outcome: "running", restarted: false },
    });
    const unchanged = await send(service, "PATCH", "/modules/contrib-one", { enabled: true });
    expect(unchanged).toMatchObject({ status: 200, body: { module: { enabled: true } } });
    expect(unchanged.body).not.toHaveProperty("outcome");

    expect(await send(service, "DELETE", "/modules/contrib-one?force=true")).toMatchObject({
      status: 200,
      body: { module: { name: "contrib-one" }, outcome: "failed", missingTypes: ["one"], restarted: true },
    });
    expect(await versions(service)).toEqual([]);
    expect((await send(service, "GET", "/modules")).body["missingTypes"]).toEqual(["one"]);

    const { body } = await send(
      service,
      "GET",
      "/audit?kind=module_installed&kind=module_removed&kind=module_disabled&kind=module_enabled",
    );
    const entries = body["entries"] as { kind: string; subject: string; detail?: string }[];
    const hash = /sha512-\S+$/;
    expect(entries.map(({ kind, subject, detail = "" }) => [kind, subject, detail.replace(hash, "…")])).toEqual([
      ["module_removed", "contrib-one@2.0.0", "…"],
      ["module_enabled", "contrib-one@2.0.0", "…"],
      ["module_disabled", "contrib-one@2.0.0", "…"],
      ["module_installed", "contrib-one@2.0.0", "instead of 1.1.0, …"],
      ["module_installed", "contrib-one@1.1.0", "…"],
    ]);
  });

  test("publishes the progress of an installation", async () => {
    await using stream = watch(sse, service.url, { kinds: ["module"] });
    await stream.until(({ kind }) => kind === "snapshotEnd");
    const sent = send(service, "POST", "/modules", { name: "@scope/two" });
    const isEnd = ({ event }: Seen): boolean => (event["module"] as { state?: string } | undefined)?.state === "done";
    const seen = await stream.until(isEnd);
    const events = seen.flatMap(({ event }) => event["module"] ?? []);
    const progress = { name: "@scope/two", version: "latest", action: "install" };
    expect(events).toEqual([
      { ...progress, state: "running", message: "downloading" },
      { ...progress, state: "running", message: "checking" },
      { ...progress, version: "1.0.0", state: "done" },
    ]);
    expect((await sent).status).toBe(201);
    expect((await send(service, "DELETE", "/modules/%40scope%2Ftwo?deferRestart=true")).status).toBe(200);
  });

  test.each<[request: object, status: number, code: string, message: string]>([
    [{}, 400, "invalid_argument", "name: must be the name of an npm package, without a version"],
    [{ name: "../x" }, 400, "invalid_argument", "name: must be the name of an npm package, without a version"],
    [
      { name: "git+ssh://git@127.0.0.1/x" },
      400,
      "invalid_argument",
      "name: must be the name of an npm package, without a version",
    ],
    [
      { name: "node-red", version: "1.0.0" },
      400,
      "invalid_argument",
      "name: node-red can't be added: the names node-red and @node-red/… belong to Node-RED itself, whose nodes it would replace",
    ],
    [
      { name: "@node-red/nodes" },
      400,
      "invalid_argument",
      "name: @node-red/nodes can't be added: the names node-red and @node-red/… belong to Node-RED itself, whose nodes it would replace",
    ],
    [
      { name: "x", version: "npm:node-red@1.0.0" },
      400,
      "invalid_argument",
      "version: must be a version, range or tag of a package in a registry, and not a file, URL or git repository",
    ],
    [{ name: "x.tgz" }, 400, "invalid_argument", "name: must be the name of an npm package, without a version"],
    [
      { name: "contrib-one", version: "file:../x" },
      400,
      "invalid_argument",
      "version: must be a version, range or tag of a package in a registry, and not a file, URL or git repository",
    ],
    [
      { name: "contrib-one", version: "git+ssh://git@127.0.0.1/x" },
      400,
      "invalid_argument",
      "version: must be a version, range or tag of a package in a registry, and not a file, URL or git repository",
    ],
    [
      { name: "contrib-one", tarball: "eA==" },
      400,
      "invalid_argument",
      "tarball: has a name and version of its own: leave name and version out",
    ],
    [
      { tarball: "eA==" },
      400,
      "invalid_argument",
      "tarball: must be a package of npm, as npm pack makes it, whose package.json has a name and a version",
    ],
    [
      { name: "contrib-denied" },
      403,
      "module_refused",
      "contrib-denied may not be installed: modules.allow and modules.deny of the configuration say which modules may be",
    ],
    [
      { name: "contrib-old" },
      403,
      "module_refused",
      "contrib-old@1.0.0 may not be installed: modules.allow and modules.deny of the configuration say which modules may be",
    ],
    [
      { name: "contrib-absent" },
      404,
      "not_found",
      "contrib-absent: the registry has no package contrib-absent. The modules remain as they were",
    ],
    [
      { name: "contrib-one", version: "^7.0.0" },
      400,
      "module_failed",
      "contrib-one: the registry has no version ^7.0.0 of contrib-one. The modules remain as they were",
    ],
    [
      { name: "contrib-lacking" },
      400,
      "module_failed",
      "contrib-lacking: the registry has no package no-such-package. The modules remain as they were",
    ],
    [
      { name: "contrib-no-file" },
      400,
      "module_failed",
      'contrib-no-file is malformed: it has no file for its nodes "all". It is not installed, and the modules remain as they were',
    ],
    [
      { name: "contrib-git" },
      400,
      "module_failed",
      "contrib-git: a package requires another one from a git repository, which is not installed. The modules remain as they were",
    ],
  ])("rejects %j", async (request, status, code, message) => {
    const before = await versions(service);
    expect(await send(service, "POST", "/modules", request)).toEqual({ status, body: { code, message } });
    expect(await versions(service)).toEqual(before);
    expect((await readdir(service.dataDir)).filter((name) => name.startsWith("modules-"))).toEqual([]);
  });

  test("runs the install scripts of the packages that the configuration names only", async () => {
    const ran = (name: string) => existsSync(join(service.dataDir, "modules/node_modules", name, "script-ran"));
    const named = await send(service, "POST", "/modules", { name: "contrib-named-script" });
    expect(named).toMatchObject({ status: 201, body: { scriptsNotRun: ["contrib-script"] } });
    expect(ran("contrib-script")).toBe(false);
    // The service runs code from its compile cache.
    expect(await readFile(join(service.dataDir, "modules/node_modules/contrib-named-script/script-ran"), "utf8")).toBe(
      "ran, with the compile cache \n",
    );
    expect((await send(service, "DELETE", "/modules/contrib-named-script?deferRestart=true")).status).toBe(200);
  });

  test("installs a tarball, whose packages come from the registry, and keeps it for later changes", async () => {
    const tarball = async (version: string, ...types: string[]) =>
      (
        await pack({
          name: "@own/three",
          version,
          files: { "nodes.js": nodesOf(types), "nodes.html": templatesOf(types) },
          manifest: { dependencies: { "@scope/two": "^1.0.0" }, "node-red": { nodes: { all: "nodes.js" } } },
        })
      ).toString("base64");
    const uploads = async () =>
      (await readdir(join(service.dataDir, "modules/uploads"))).map((name) => name.replace(/-[\da-f]{16}\.tgz$/, ""));
    await deploy(service, { flows: [tab("T"), node("a", "three")] });
    expect(await send(service, "POST", "/modules", { tarball: await tarball("1.0.0", "three") })).toMatchObject({
      status: 201,
      body: { module: { name: "@own/three", version: "1.0.0", types: ["three"], loaded: true }, outcome: "running" },
    });
    expect((await send(service, "POST", "/modules", { name: "contrib-one" })).status).toBe(201);
    expect(await versions(service)).toEqual(["@own/three@1.0.0", "contrib-one@2.0.0"]);
    for (const [version, ...types] of [
      ["1.0.0", "three", "another"],
      ["1.0.1", "three"],
    ] as const) {
      const replaced = await send(service, "POST", "/modules", { tarball: await tarball(version, ...types) });
      expect(replaced).toMatchObject({ status: 201, body: { module: { version, types, loaded: true } } });
      expect(await uploads()).toEqual([`own-three-${version}`]);
    }
    await deploy(service, { flows: [tab("T")] });
    for (const name of ["@own/three?deferRestart=true", "contrib-one"]) {
      expect((await send(service, "DELETE", `/modules/${name}`)).status).toBe(200);
    }
    expect(await uploads()).toEqual([]);
    expect(await versions(service)).toEqual([]);
  });

  test.each([
    ["peerDependencies", "http"],
    ["dependencies", "file"],
  ])("rejects a tarball whose %s name what is at a %s URL, which is not read", async (section, scheme) => {
    const asked: string[] = [];
    await using server = createServer(({ url = "" }, response) => {
      asked.push(url);
      response.writeHead(404).end();
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const target = scheme === "file" ? "file:../../.." : `http://127.0.0.1:${port}/internal`;
    const manifest = { name: "contrib-probe", version: "1.0.0", [section]: { hidden: target } };
    const tarball = (await packFiles({ "package.json": JSON.stringify(manifest) })).toString("base64");
    expect(await send(service, "POST", "/modules", { tarball })).toEqual({
      status: 400,
      body: {
        code: "module_failed",
        message:
          "contrib-probe requires hidden, which does not come from a registry: it is not installed, and the modules remain as they were",
      },
    });
    expect(asked).toEqual([]);
  });

  test("single sets of nodes are disabled and enabled, also Node-RED's own, unless the flows have nodes of them", async () => {
    const code = `const n = (context.get("n") ?? 0) + 1; context.set("n", n); msg.payload = String(n)`;
    await deploy(service, { flows: endpoint("/count", code) });
    expect(await service.get("/count")).toBe("1");
    const patch = (name: string, body: object) => send(service, "PATCH", `/modules/${name}`, body);
    expect(await patch("node-red", { set: "function", enabled: false })).toEqual({
      status: 400,
      body: {
        code: "module_in_use",
        message:
          "the active flows have 1 node of node-red/function, and would not be started without it: remove them from the flows first, or set force",
      },
    });
    expect(await patch("node-red", { set: "none", enabled: false })).toMatchObject({ status: 404 });
    expect(await patch("node-red", { version: "5.0.0" })).toMatchObject({ status: 404 });
    expect(await patch("node-red", { set: "exec", enabled: false })).toMatchObject({
      status: 200,
      body: { module: { name: "node-red", enabled: true, loaded: true }, outcome: "running", restarted: false },
    });
    expect((await send(service, "GET", "/modules")).body["disabledSets"]).toEqual(["node-red/exec"]);
    expect(await service.get("/count")).toBe("2");
    const exec = { ...node("e", "exec"), command: "", addpay: "", append: "", useSpawn: "false", wires: [[], [], []] };
    await deploy(service, { flows: [tab("T"), exec] });
    expect(await readRuntime(service)).toMatchObject({ state: "failed", message: "missing node types: exec" });
    const listed = await runCommand(["module", "list", "--server", service.url]);
    expect(listed.stdout).toMatch(/^node-red\/exec +disabled/m);
    const enabled = await runCommand(["module", "enable", "node-red/exec", "--server", service.url]);
    expect(enabled).toMatchObject({ code: 0, stdout: "Enabled node-red/exec 5.0.7.\n" });
    expect(await readRuntime(service)).toMatchObject({ state: "running" });
    expect((await send(service, "GET", "/modules")).body).not.toHaveProperty("disabledSets");
    await deploy(service, { flows: [tab("T")] });
  });

  test("commands install, update, disable, enable and remove modules at the server", async () => {
    const flowgate = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCommand(["module", ...args, "--server", service.url]);
      return { code, stdout, stderr };
    };
    await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
    const file = join(folder.path, "three.tgz");
    await writeFile(file, await pack({ name: "contrib-three", version: "3.0.0" }));
    const starts = () => service.log().match(/the flow runtime is running/g)?.length ?? 0;
    // The flows of the test before may start later, with a message in the log.
    const rev = await deploy(service, { flows: [tab("settled")] });
    await eventually(async () =>
      expect((await service.send("GET", "/runtime")).json()).toMatchObject({ rev, outcome: "running" }),
    );
    const before = starts();
    expect(await flowgate("install", "contrib-one@1.0.0", file)).toEqual({
      code: 0,
      stdout: "Installed contrib-one 1.0.0.\nInstalled contrib-three 3.0.0.\n",
      stderr: "",
    });
    expect(starts() - before).toBe(0);
    expect(await flowgate("update", "contrib-one")).toMatchObject({ code: 0, stdout: "Updated contrib-one 2.0.0.\n" });
    expect(await flowgate("disable", "contrib-three", "contrib-one")).toMatchObject({
      code: 0,
      stdout: "Disabled contrib-three 3.0.0.\nDisabled contrib-one 2.0.0.\n",
    });
    expect(starts() - before).toBe(1);
    expect(await flowgate("remove", "contrib-three")).toMatchObject({
      code: 0,
      stdout: "Removed contrib-three 3.0.0.\n",
    });
    expect((await flowgate("list")).stdout).toMatch(/^contrib-one +2\.0\.0 +disabled +one, one more$/m);
    expect(await flowgate("enable", "contrib-one")).toMatchObject({ code: 0, stdout: "Enabled contrib-one 2.0.0.\n" });
    expect(await flowgate("remove", "contrib-one")).toMatchObject({ code: 0, stdout: "Removed contrib-one 2.0.0.\n" });
    expect(await flowgate("remove", "contrib-one")).toMatchObject({
      code: 1,
      stderr: 'flowgate: name: no module "contrib-one" is installed.\n',
    });
    // Names remain as they were written.
    for (const [name, problem] of [
      [
        "contrib-denied",
        " may not be installed: modules.allow and modules.deny of the configuration say which modules may be.",
      ],
      [
        "node-red-contrib-nowhere",
        ": the registry has no package node-red-contrib-nowhere. The modules remain as they were.",
      ],
      ["@scope/no-where", ": the registry has no package @scope/no-where. The modules remain as they were."],
      [
        "contrib-no-file",
        ' is malformed: it has no file for its nodes "all". It is not installed, and the modules remain as they were.',
      ],
    ] as const) {
      expect(await flowgate("install", name)).toEqual({ code: 1, stdout: "", stderr: `flowgate: ${name}${problem}\n` });
    }
    const flag = await flowgate("install", "contrib-script", "--allow-scripts", "contrib-script");
    expect(flag.code).toBe(1);
    expect(flag.stderr).toContain("--allow-scripts is for modules in a data directory");
  });
});

test("reading requires modules.read, which read includes, and changing requires modules.write", async () => {
  const users = [user("reader", "read"), user("installer", "modules.write")];
  await using service = await startService({ config: { ...withoutRuntime, adminAuth: { users } } });
  const reader = bearer(await login(service, { username: "reader", scope: "read" }));
  const installer = bearer(await login(service, { username: "installer", scope: "modules.write" }));
  const post = (headers: Record<string, string>): Promise<Reply> =>
    service.send("POST", "/modules", { headers: { ...headers, ...json }, body: "{}" });
  expect((await service.send("GET", "/modules")).status).toBe(401);
  expect((await service.send("GET", "/modules", { headers: installer })).status).toBe(401);
  expect((await service.send("GET", "/modules", { headers: reader })).status).toBe(200);
  expect((await post(reader)).headers["www-authenticate"]).toContain('scope="modules.write"');
  expect((await post(installer)).status).toBe(400);
});

describe("the limits of an installation", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({
      config: { ...withoutRuntime, modules: { registry: registry.url, timeoutMs: 10_000, sizeMb: 2 } },
    });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("modules.timeoutMs: a registry that stalls, during which there is no other change", async () => {
    const slow = send(service, "POST", "/modules", { name: "contrib-slow" });
    await registry.untilRequested("contrib-slow");
    expect(await send(service, "POST", "/modules", { name: "contrib-one" })).toEqual({
      status: 409,
      body: {
        code: "modules_busy",
        message: "another change of the modules is in progress (install contrib-slow): wait until it has ended",
      },
    });
    expect(await slow).toEqual({
      status: 503,
      body: {
        code: "registry_unavailable",
        message:
          "contrib-slow: npm has not finished within 10000 ms (modules.timeoutMs): the registry does not answer, or is too slow. The modules remain as they were",
      },
    });
    expect(await versions(service)).toEqual([]);
    expect((await readdir(service.dataDir)).filter((name) => name.startsWith("modules-"))).toEqual([]);
  });

  test("modules.sizeMb: what would take more leaves the modules as they were", async () => {
    expect(await send(service, "POST", "/modules", { name: "contrib-large" })).toEqual({
      status: 400,
      body: {
        code: "module_failed",
        message:
          "contrib-large: the modules would take more than 2 MiB (modules.sizeMb). The modules remain as they were",
      },
    });
    expect(await versions(service)).toEqual([]);
  });
});

test("a service that ends while a registry stalls leaves the modules as they were", async () => {
  await using own = await openNpmRegistry(packages);
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const dataDir = join(folder.path, "data");
  await writeModules(join(dataDir, "modules"), [{ name: "contrib-one", types: ["one"] }]);
  const options = { dataDir, config: { ...withoutRuntime, modules: { registry: own.url } } };
  {
    await using service = await startService(options);
    const slow = send(service, "POST", "/modules", { name: "contrib-slow" }).catch(() => undefined);
    await own.untilRequested("contrib-slow");
    await service.stop();
    await slow;
  }
  const before = await readFile(join(dataDir, "modules/package-lock.json"), "utf8");
  await using service = await startService(options);
  expect(await versions(service)).toEqual(["contrib-one@1.0.0"]);
  expect((await send(service, "POST", "/modules", { name: "@scope/two" })).status).toBe(201);
  expect((await readdir(dataDir)).filter((name) => name.startsWith("modules"))).toEqual(["modules", "modules.lock"]);
  expect(before).not.toContain("contrib-slow");
});

test("a registry that can't be reached, and one that asks for a token, are named without their address", async () => {
  await using service = await startService({
    config: { ...withoutRuntime, modules: { registry: "http://127.0.0.1:1" } },
  });
  expect(await send(service, "POST", "/modules", { name: "contrib-one" })).toEqual({
    status: 503,
    body: {
      code: "registry_unavailable",
      message: "contrib-one: the registry can't be reached (ECONNREFUSED). The modules remain as they were",
    },
  });
});

test("installs from a folder of packages, with the versions that are there", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-packages-"));
  const offline = packages().filter(({ name }) => /^contrib-one|^@scope/.test(name));
  for (const [index, each] of offline.entries()) {
    await writeFile(join(folder.path, `package ${index}.tgz`), await pack(each));
  }
  await writeFile(join(folder.path, "broken.tgz"), "no package");
  const four = { name: "contrib-four", version: "4.0.0", manifest: { dependencies: { "@scope/two": "*" } } };
  await writeFile(join(folder.path, "four.tgz"), await pack(four));
  await using service = await startService({ config: { ...withoutRuntime, modules: { registry: folder.path } } });
  for (const [request, version] of [
    [{ name: "contrib-one", version: "^1.0.0" }, "1.1.0"],
    [{ name: "contrib-one" }, "2.0.0"],
    [{ name: "contrib-four" }, "4.0.0"],
  ] as const) {
    expect(await send(service, "POST", "/modules", request)).toMatchObject({
      status: 201,
      body: { module: { version } },
    });
  }
  expect(await versions(service)).toEqual(["contrib-four@4.0.0", "contrib-one@2.0.0"]);
  expect(await send(service, "POST", "/modules", { name: "broken" })).toMatchObject({ status: 404 });
  expect(await readFile(join(service.dataDir, "modules/package-lock.json"), "utf8")).not.toContain("127.0.0.1");
});

test("what was denied after it was installed is not loaded", async () => {
  await using service = await startService({
    config: { modules: { allow: ["@scope/*"] } },
    prepare: (dataDir) => writeModules(join(dataDir, "modules"), [{ name: "contrib-one", types: ["one"] }]),
  });
  await deploy(service, { flows: [...endpoint("/a", ""), tab("T"), node("a", "one")] });
  expect(await readRuntime(service)).toMatchObject({ state: "failed", message: "missing node types: one" });
});
