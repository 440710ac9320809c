import { execFileSync, spawn } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openNpmRegistry } from "../../packages/runtime/test/modules/npm-registry.ts";
import { nodesOf, packagedSubflow, templatesOf } from "../../packages/runtime/test/modules/write-modules.ts";
import { answerNodeRedAdmin, runNodeRedAdmin } from "./node-red-admin.ts";
import { startToolService } from "./tools.ts";
import { passwordOf, user } from "./users.ts";

// Each command of node-red-admin against this service and against a Node-RED, with the same users, registry and order of commands.

const withNodes = (...types: string[]) => ({
  manifest: { "node-red": { nodes: { all: "nodes.js" } } },
  files: { "nodes.js": nodesOf(types), "nodes.html": templatesOf(types) },
});

const packages = [
  {
    name: "contrib-one",
    version: "1.0.0",
    manifest: { "node-red": { nodes: { all: "nodes.js", second: "second.js" } } },
    files: { ...withNodes("one").files, "second.js": nodesOf(["second"]), "second.html": templatesOf(["second"]) },
  },
  { name: "@scope/two", version: "2.0.0", ...withNodes("two") },
  { name: "contrib-subflow", version: "1.0.0", ...packagedSubflow("packaged") },
  { name: "no-nodes", version: "1.0.0" },
];

const stack = new AsyncDisposableStack();
afterAll(() => stack.disposeAsync());

let ofService: Run;
let ofNodeRed: Run;
type Run = (args: readonly string[], answers?: readonly string[]) => Promise<string>;

beforeAll(async () => {
  const registry = stack.use(await openNpmRegistry(() => packages));
  const admin = user("admin", "*");
  const service = stack.use(
    await startToolService({ config: { modules: { registry: registry.url }, adminAuth: { users: [admin] } } }),
  );
  const home = async (url: string): Promise<Run> => {
    const { path } = stack.use(await mkdtempDisposable(join(tmpdir(), "flowgate-admin-")));
    expect(await runNodeRedAdmin(path, ["target", url])).toContain(url);
    // What the two can't have in common. Node-RED's version has "-git" in a checkout, in a column of its own.
    return async (args, answers) => {
      const output = await (answers === undefined
        ? runNodeRedAdmin(path, args)
        : answerNodeRedAdmin(path, args, answers));
      return output.replaceAll(url, "URL").replaceAll(/-git( +)$/gm, "    $1");
    };
  };
  ofService = await home(service.toolsUrl);
  ofNodeRed = await home(await startNodeRed(registry.url, admin.password));
});

async function startNodeRed(registry: string, password: string): Promise<string> {
  const { path: dir } = stack.use(await mkdtempDisposable(join(tmpdir(), "flowgate-node-red-")));
  await writeFile(join(dir, "package.json"), JSON.stringify({ name: "user-folder", version: "1.0.0" }));
  // That of the machine, and not the one that stands in for it.
  const PATH = (process.env["PATH"] ?? "")
    .split(":")
    .filter((each) => !each.includes("node_modules"))
    .join(":");
  const npm = join(execFileSync("npm", ["root", "--global"], { env: { PATH }, encoding: "utf8" }).trim(), "npm");
  const program = fileURLToPath(new URL("../fixtures/node-red/admin-api.ts", import.meta.url));
  const { NODE_COMPILE_CACHE } = process.env;
  const child = spawn(process.execPath, [program, dir, password, join(npm, "package.json")], {
    env: { PATH, NODE_COMPILE_CACHE, HOME: dir, npm_config_registry: registry, npm_config_cache: join(dir, "cache") },
    stdio: ["ignore", "pipe", "inherit"],
  });
  stack.defer(async () => {
    child.kill();
    await new Promise((resolve) => child.once("exit", resolve));
  });
  let output = "";
  return new Promise((resolve, reject) => {
    child.once("exit", () => reject(new Error(`Node-RED ended after it printed: ${output}`)));
    child.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      const [, url] = /^listens on (http:\S+)$/m.exec(output) ?? [];
      if (url !== undefined) {
        resolve(url);
      }
    });
  });
}

/** In the order in which they are run, with what is expected of both. */
const commands: readonly { args: readonly string[]; answers?: readonly string[]; prints: string }[] = [
  { args: ["list"], prints: "Not logged in" },
  { args: ["login"], answers: ["admin", "wrong"], prints: "Login failed" },
  { args: ["login"], answers: ["admin", passwordOf("admin")], prints: "Logged in" },
  { args: ["target"], prints: "Target: URL" },
  { args: ["info", "none"], prints: "404: Module not found" },
  { args: ["info", "node-red/none"], prints: "404: Node not found" },
  { args: ["install", "contrib-one@1.0.0"], prints: "contrib-one/all" },
  { args: ["install", "contrib-one@1.0.0"], prints: "400: Module already loaded" },
  { args: ["install", "contrib-one"], prints: "400: Module already loaded" },
  { args: ["install", "@scope/two"], prints: "@scope/two/all" },
  { args: ["info", "contrib-one"], prints: "1.0.0" },
  { args: ["info", "@scope/two/all"], prints: "2.0.0" },
  { args: ["install", "contrib-subflow"], prints: "contrib-subflow/example" },
  { args: ["info", "contrib-subflow/example"], prints: "packaged" },
  { args: ["disable", "contrib-one"], prints: "disabled" },
  { args: ["info", "contrib-one"], prints: "disabled" },
  { args: ["enable", "contrib-one"], prints: "enabled" },
  { args: ["disable", "@scope/two/all"], prints: "disabled" },
  { args: ["info", "@scope/two/all"], prints: "disabled" },
  { args: ["enable", "@scope/two/all"], prints: "enabled" },
  { args: ["disable", "node-red/inject"], prints: "disabled" },
  { args: ["info", "node-red/inject"], prints: "disabled" },
  { args: ["enable", "node-red/inject"], prints: "enabled" },
  { args: ["disable", "contrib-one/second"], prints: "disabled" },
  { args: ["info", "contrib-one"], prints: "disabled" },
  { args: ["enable", "contrib-one/second"], prints: "enabled" },
  { args: ["disable", "none"], prints: "400: Module not found" },
  { args: ["enable", "node-red/none"], prints: "400: Node not found" },
  { args: ["remove", "contrib-one"], prints: "Uninstalled contrib-one" },
  { args: ["remove", "contrib-one"], prints: "404: Module not found" },
  { args: ["remove", "@scope/two"], prints: "Uninstalled @scope/two" },
];

test("node-red-admin prints the same against both", async () => {
  for (const { args, answers, prints } of commands) {
    // The commands depend on one another.
    const own = await ofService(args, answers);
    const other = await ofNodeRed(args, answers);
    expect([args, own]).toEqual([args, other]);
    expect([args, own]).toEqual([args, expect.stringContaining(prints)]);
  }
});

test("the list has the same nodes, types and states", async () => {
  const own = await ofService(["list", "--json"]);
  const other = await ofNodeRed(["list", "--json"]);
  // Node-RED's version has "-git" in a checkout, and types are in the order in which programs register them.
  const normalize = (text: string) =>
    (JSON.parse(text) as { id: string; types: string[]; version: string }[])
      .map((each) => ({ ...each, types: each.types.toSorted(), version: each.version.replace("-git", "") }))
      .toSorted((one, two) => (one.id < two.id ? -1 : 1));
  expect(normalize(own)).toEqual(normalize(other));
});

test("what differs is documented", async () => {
  expect(await ofService(["projects"])).toContain("flowgate history");
  expect(await ofService(["install", "no-such-package"])).toContain(
    "404: no-such-package: the registry has no package no-such-package",
  );
  expect(await ofNodeRed(["install", "no-such-package"])).toContain("404: Module not found");
  expect(await ofService(["install", "no-nodes"])).toContain("no-nodes");
  expect(await ofNodeRed(["install", "no-nodes"])).toContain("400: Install failed");
});

test("hash-pw works without a server, and its hashes are valid for users of this service", async () => {
  const output = await ofService(["hash-pw"], [passwordOf("admin")]);
  expect(output).toMatch(/\$2[aby]\$\d\d\$/);
});
