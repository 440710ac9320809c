import { existsSync } from "node:fs";
import { chmod, chown, readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { writeFiles } from "../../packages/runtime/test/planted-code.ts";
import { createFolder } from "../store/builders.ts";
import { openNpmRegistry } from "../../packages/runtime/test/modules/npm-registry.ts";
import { writeModules } from "../../packages/runtime/test/modules/write-modules.ts";
import { type Outcome } from "./run-cli.ts";
import { runCommand } from "./run-command.ts";
import { needs } from "../needs.ts";

const node = { files: { "node.js": "module.exports = () => {};", "node.html": "" } };

let registry: Awaited<ReturnType<typeof openNpmRegistry>>;
beforeAll(async () => {
  registry = await openNpmRegistry((url) => [
    { name: "contrib-plain", version: "1.0.0", ...node },
    { name: "contrib-plain", version: "1.1.0", ...node, manifest: { dependencies: { "@scope/library": "^2.0.0" } } },
    { name: "@scope/library", version: "2.3.4" },
    { name: "contrib-script", version: "1.0.0", manifest: { scripts: { install: "echo ran > script-ran" } } },
    { name: "contrib-git", version: "1.0.0", manifest: { dependencies: { hidden: "git+ssh://git@127.0.0.1/x.git" } } },
    {
      name: "contrib-url",
      version: "1.0.0",
      manifest: { dependencies: { "@scope/library": `${url}/@scope-library-2.3.4.tgz` } },
    },
  ]);
});
afterAll(() => registry[Symbol.asyncDispose]());

function run(dataDir: string, command: string, args: readonly string[], env = {}): Promise<Outcome> {
  const from = command === "install" ? ["--registry", registry.url] : [];
  return runCommand(["module", command, ...args, ...from, "--data-dir", dataDir], { env });
}

const read = async (...path: string[]) => JSON.parse(await readFile(join(...path), "utf8")) as Record<string, unknown>;

test("installs, lists and removes modules with exact versions, next to nothing that remains", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  expect((await run(path, "list", [])).stdout).toBe(
    "There are no modules. Install one with flowgate module install.\n",
  );
  expect(await run(path, "install", ["contrib-plain@^1.0.0"])).toEqual({
    code: 0,
    stdout: "Installed contrib-plain 1.1.0.\nRun flowgate runtime restart to load what has changed.\n",
    stderr: "Installing contrib-plain@^1.0.0 …\n",
  });
  expect(await read(path, "modules/package.json")).toMatchObject({ dependencies: { "contrib-plain": "1.1.0" } });
  expect(await read(path, "modules/node_modules/@scope/library/package.json")).toMatchObject({ version: "2.3.4" });
  expect((await run(path, "install", ["contrib-plain@1.0.0"])).stdout).toContain("Installed contrib-plain 1.0.0.");
  expect(JSON.parse((await run(path, "list", ["-o", "json"])).stdout)).toEqual([
    { name: "contrib-plain", version: "1.0.0" },
  ]);
  expect((await readdir(path)).toSorted()).toEqual(["modules", "modules.lock", "npm-cache"]);
  expect((await run(path, "remove", ["absent"])).stderr).toContain(
    "No module absent is installed. There are: contrib-plain.",
  );
  expect((await run(path, "remove", ["contrib-plain"])).code).toBe(0);
  expect((await run(path, "list", ["-o", "json"])).stdout).toBe("[]\n");
  expect(existsSync(join(path, "modules/node_modules/contrib-plain"))).toBe(false);
});

test("installs no more modules than a folder can have", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  await writeModules(
    join(path, "modules"),
    Array.from({ length: 199 }, (_, index) => ({ name: `module-${index}` })),
  );
  const { code, stderr } = await run(path, "install", ["contrib-plain", "contrib-script"]);
  expect(code).toBe(1);
  expect(stderr).toContain(
    "contrib-plain, contrib-script: at most 200 modules can be installed, and 199 are: remove some first.",
  );
});

test.each([
  ["git+ssh://git@example.com/x.git", "is not the name of an npm package"],
  ["contrib-plain@git+ssh://git@example.com/x.git", "must be a version, range or tag"],
  ["contrib-plain@file:../x", "must be a version, range or tag"],
  ["contrib-plain@x.tgz", "must be a version, range or tag"],
  ["contrib-plain@npm:node-red", "must be a version, range or tag"],
  ["node-red@1.0.0", "node-red can't be added: the names node-red and @node-red/… belong to Node-RED itself"],
  ["./folder", "is not the name of an npm package"],
  ["x.tgz", "is not the name of an npm package"],
])("refuses %s before npm is run", async (spec, message) => {
  await using folder = await createFolder();
  const { code, stderr } = await run(folder.path, "install", [spec]);
  expect(code).toBe(1);
  expect(stderr).toContain(message);
});

test("a failed installation leaves the modules as they were", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  await run(path, "install", ["contrib-plain"]);
  const before = await readFile(join(path, "modules/package-lock.json"), "utf8");
  for (const [name, message] of [
    ["moment-absent", "flowgate: the registry has no package moment-absent. The modules remain as they were.\n"],
    ["contrib-plain@7", "flowgate: the registry has no version 7 of contrib-plain. The modules remain as they were.\n"],
    ["contrib-git", "from a git repository, which is not used unless --allow-git is given"],
    ["contrib-url", "contrib-url requires @scope/library, which does not come from a registry"],
  ] as const) {
    const { code, stderr } = await run(path, "install", ["contrib-plain@1.0.0", name]);
    expect(code).toBe(1);
    expect(stderr).toContain(message);
    expect(await readFile(join(path, "modules/package-lock.json"), "utf8")).toBe(before);
    expect((await readdir(path)).toSorted()).toEqual(["modules", "modules.lock", "npm-cache"]);
  }
});

test("what was installed with --allow-git does not keep others from being installed without it", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  expect((await run(path, "install", ["contrib-url", "--allow-git"])).code).toBe(0);
  expect((await run(path, "install", ["contrib-plain"])).code).toBe(0);
  const { stdout } = await run(path, "list", ["-o", "json"]);
  expect((JSON.parse(stdout) as { name: string }[]).map(({ name }) => name)).toEqual(["contrib-plain", "contrib-url"]);
});

test("runs the install scripts of the packages that are named only", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  const ran = join(path, "modules/node_modules/contrib-script/script-ran");
  const first = await run(path, "install", ["contrib-script"]);
  expect(first.stdout).toContain("The install scripts of contrib-script were not run.");
  expect(existsSync(ran)).toBe(false);
  const second = await run(path, "install", ["contrib-script", "--allow-scripts", "contrib-script"]);
  expect(second).toMatchObject({ code: 0, stderr: expect.not.stringContaining("not run") as unknown });
  expect(existsSync(ran)).toBe(true);
  const third = await run(path, "install", ["contrib-plain", "--allow-scripts", "contrib-other"]);
  expect(third.stderr).toContain("--allow-scripts names contrib-other, which none of the modules requires.");
});

test("reads no configuration of npm that flows could have written, or that is in the environment", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  await writeFiles(path, { "runtime/git.sh": `#!/bin/sh\ntouch ${path}/runtime/became-the-operator\n` });
  await chmod(join(path, "runtime/git.sh"), 0o755);
  const npmrc = `git=${path}/runtime/git.sh\nregistry=http://127.0.0.1:1\nignore-scripts=false\n`;
  await writeFiles(path, {
    "runtime/.npmrc": npmrc,
    "modules/.npmrc": npmrc,
    "runtime/package.json": JSON.stringify({ dependencies: { hidden: "git+ssh://git@127.0.0.1/x.git" } }),
  });
  const environment = {
    HOME: join(path, "runtime"),
    npm_config_git: join(path, "runtime/git.sh"),
    npm_config_userconfig: join(path, "runtime/.npmrc"),
    npm_config_registry: "http://127.0.0.1:1",
  };
  expect((await run(path, "install", ["contrib-script"], environment)).code).toBe(0);
  expect((await run(path, "install", ["contrib-git"], environment)).code).toBe(1);
  expect(existsSync(join(path, "runtime/became-the-operator"))).toBe(false);
  expect(existsSync(join(path, "modules/node_modules/contrib-script/script-ran"))).toBe(false);
});

test("--npmrc names the configuration that npm uses", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  await writeFiles(path, { npmrc: `registry=${registry.url}\n` });
  const outcome = await runCommand([
    "module",
    "install",
    "contrib-plain",
    "--npmrc",
    join(path, "npmrc"),
    "--data-dir",
    path,
  ]);
  expect(outcome).toMatchObject({ code: 0 });
});

test("explains that there is no npm, and no data directory", async () => {
  await using folder = await createFolder();
  const { path } = folder;
  const { stderr } = await run(path, "install", ["contrib-plain"], { PATH: "/nonexistent" });
  expect(stderr).toContain("npm is not installed on this machine, and modules are installed with it");
  const absent = await run(join(path, "absent"), "install", ["contrib-plain"]);
  expect(absent.stderr).toContain("There is no data directory");
  expect(existsSync(join(path, "absent"))).toBe(false);
});

test("refuses a data directory of another user, as root too", needs("root", process.getuid?.() === 0), async () => {
  await using folder = await createFolder();
  await chown(folder.path, 12_345, 12_345);
  const { code, stderr } = await run(folder.path, "install", ["contrib-plain"]);
  expect(code).toBe(1);
  expect(stderr).toContain("belongs to the user with the id 12345, and this is root");
  expect(stderr).toContain("sudo -u '#12345'");
});
