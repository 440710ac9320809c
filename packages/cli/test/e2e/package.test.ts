import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { execute } from "../../../../test/examples/execute.ts";
import { type Service, startService } from "../../../../test/e2e/service.ts";
import { buildPackages, shellEnvironment } from "../../../../test/packaging/build.ts";
import { openStage, type Stage } from "../../../../test/packaging/stage.ts";

let stage: Stage;
let service: Service;

/** The packed command line in an empty folder, and a service elsewhere. */
beforeAll(async () => {
  stage = await openStage();
  const { "@flowgate/cli": archive = "" } = (await buildPackages()).archives;
  await stage.run("npm", ["install", "--offline", "--no-audit", "--no-fund", archive], { env: shellEnvironment });
  service = await startService({ config: { runtime: { port: 0 } } });
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await stage[Symbol.asyncDispose]();
});

async function flowgate(script: string) {
  const { stdout, stderr, code } = await execute("bash", ["-euc", script], {
    cwd: stage.empty,
    env: {
      ...shellEnvironment,
      PATH: [join(stage.empty, "node_modules/.bin"), shellEnvironment.PATH].join(delimiter),
      FLOWGATE_SERVER: service.url,
      XDG_CONFIG_HOME: join(stage.other, "config"),
      XDG_CACHE_HOME: join(stage.other, "cache"),
    },
  });
  return { stdout, stderr, code };
}

test("is at most 15 packages and 5 MB, with the licences of what it contains", async () => {
  const modules = join(stage.empty, "node_modules");
  const { packages } = JSON.parse(await readFile(join(modules, ".package-lock.json"), "utf8")) as { packages: object };
  const files = await readdir(modules, { recursive: true });
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(modules, file))).size));
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  expect(Object.keys(packages).length).toBeLessThanOrEqual(15);
  expect(bytes).toBeLessThanOrEqual(5_000_000);
  const licenses = await readFile(join(modules, "@flowgate/cli/licenses.txt"), "utf8");
  expect(licenses.match(/^(?:commander|openid-client|yaml) [\d.]+ \(\w+\)$/gm)).toHaveLength(3);
});

const installation = "npm uninstall -g @flowgate/cli && npm install -g flowgate";

test.each([
  ["flowgate", "flowgate serve"],
  ["flowgate --port 80", "flowgate serve"],
  ["flowgate backup copy.db --data-dir data", "flowgate backup"],
  ["flowgate credentials rotate --help", "flowgate credentials"],
  ["flowgate module install node-red-node-random --data-dir data", "--data-dir"],
  ["flowgate audit verify --store sqlite:flowgate.db", "--store"],
])("%s says what to install", async (command, subject) => {
  expect(await flowgate(command)).toEqual({
    code: 1,
    stdout: "",
    stderr: `flowgate: ${subject} comes with the service, whose package has all commands: ${installation}\n`,
  });
});

test("the help says it too, and lists no command that is not there", async () => {
  const { stdout } = await flowgate("flowgate --help");
  expect(stdout).toContain(`hash-password come with the service:\n  ${installation}\n`);
  expect(stdout).not.toMatch(/^ {2}serve\b/m);
});

test("the example of the README runs", async () => {
  const readme = await readFile(join(import.meta.dirname, "../../README.md"), "utf8");
  const [, script = ""] = /^```sh file=day\.sh\n(.*?)^```$/ms.exec(readme) ?? [];
  const flows = [
    { id: "tab", type: "tab", label: "Greetings" },
    { id: "greet", type: "function", z: "tab", func: "return { payload: 'good morning' };", wires: [[]] },
  ];
  await writeFile(join(stage.empty, "first.json"), JSON.stringify(flows));
  const { code, stdout, stderr } = await flowgate(script);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(stdout).toMatch(/func: .*good morning.* -> .*hello/);
  const { revisions } = (await service.send("GET", "/revisions")).json() as { revisions: { message: string }[] };
  expect(revisions.map(({ message }) => message)).toEqual([
    expect.stringMatching(/^Undo of .*: hello$/),
    "hello",
    "first flows",
    undefined,
  ]);
});

test("imports a folder of Node-RED", async () => {
  const folder = join(stage.other, "node-red");
  await mkdir(folder);
  await writeFile(join(folder, "flows.json"), JSON.stringify([{ id: "tab", type: "tab", label: "Imported" }]));
  await writeFile(
    join(folder, "settings.js"),
    `module.exports = { flowFile: "flows.json", externalModules: { palette: { denyList: ["evil-*"] } } };`,
  );
  const { code, stdout } = await flowgate(`flowgate import '${folder}' --yes --write-config flowgate.yaml`);
  expect(code).toBe(0);
  expect(stdout).toMatch(/externalModules +settings\.js:1 +taken over/);
  expect(await readFile(join(stage.empty, "flowgate.yaml"), "utf8")).toContain("evil-*");
  expect((await flowgate("flowgate get flows -o json")).stdout).toContain("Imported");
});
