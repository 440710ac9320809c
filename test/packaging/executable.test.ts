import { execFile } from "node:child_process";
import { mkdir, readFile, readdir, truncate, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { deploy } from "../e2e/deploy.ts";
import { endpoint } from "../e2e/flow-builders.ts";
import { bearer } from "../e2e/rest.ts";
import { type Service, type ServiceOptions, startService } from "../e2e/service.ts";
import { login, user } from "../e2e/users.ts";
import { escape } from "../runtime/flow-builders.ts";
import { buildPackages } from "./build.ts";
import { type Stage, openStage } from "./stage.ts";

let stage: Stage;
let executable: string;
/** The path needs quotes, since all flags of Node are a single argument here. */
let dataDir: string;

beforeAll(async () => {
  stage = await openStage();
  executable = join(stage.other, "flowgate");
  dataDir = join(stage.other, 'data of "one" service');
  const { checkout } = await buildPackages();
  await stage.run(process.execPath, [join(checkout, "scripts/build-executable.ts"), executable]);
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Runs in an empty folder, without a PATH; flags of Node in the environment must have no effect. */
function start(options: ServiceOptions = {}): Promise<Service> {
  const env = { PATH: "", NODE_OPTIONS: "--require=/nowhere.js" };
  return startService({ command: [executable], cwd: stage.empty, dataDir, env, ...options });
}

async function runExecutable(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  // Without the configuration of the user who runs the tests.
  const environment = { XDG_CONFIG_HOME: "/nonexistent", ...env };
  return promisify(execFile)(executable, args, { cwd: stage.empty, env: environment }).catch((error: unknown) => error);
}

/** The folder of the unpacked files. */
async function programFolder(): Promise<string> {
  const programs = join(dataDir, "program");
  const [folder = ""] = await readdir(programs);
  return join(programs, folder);
}

test("prints its version, help and errors without unpacking anything", async () => {
  const { version } = JSON.parse(await readFile("package.json", "utf8")) as { version: string };
  expect(await runExecutable(["--version"])).toMatchObject({ stdout: `${version}\n` });
  expect(await runExecutable(["--help"])).toMatchObject({
    stdout: expect.stringMatching(/^ {2}status .*^ {2}validate .*^ {2}hash-password /ms) as unknown,
  });
  expect(await runExecutable(["--port", "x"])).toMatchObject({
    code: 1,
    stderr: "flowgate: --port: must be a whole number from 0 to 65535\n",
  });
  expect(await readdir(stage.empty)).toEqual([]);
});

test("validates flows without unpacking anything", async () => {
  await writeFile(join(stage.other, "flows.yaml"), "- { id: T, type: tab }\n- { id: T, type: tab }\n");
  expect(await runExecutable(["validate", join(stage.other, "flows.yaml")])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("flows.yaml:2:") as unknown,
  });
  expect(await readdir(stage.empty)).toEqual([]);
});

/** What each expression returns in a flow, or its error code. */
async function outcomes(
  service: Service,
  expressions: readonly string[],
  headers: Readonly<Record<string, string>> = {},
): Promise<Record<string, unknown>> {
  const code = `${escape} const load = (name) => host.getBuiltinModule(name);
    const evaluate = (expression) => {
      try { return { value: expression() }; } catch (error) { return { code: error.code }; }
    };
    msg.payload = [${expressions.map((expression) => `() => ${expression}`).join()}].map(evaluate);`;
  await deploy(service, { flows: endpoint("/try", code) }, "full", headers);
  const results = JSON.parse(await service.get("/try", headers)) as unknown[];
  return Object.fromEntries(expressions.map((expression, at) => [expression, results[at]]));
}

const denied = { code: "ERR_ACCESS_DENIED" };

describe("with users", () => {
  let service: Service;
  let authorization: ReturnType<typeof bearer>;
  beforeAll(async () => {
    service = await start({ config: { adminAuth: { users: [user("admin", "*")] } } });
    // A bcrypt hash, which is verified on a worker thread.
    authorization = bearer(await login(service, { username: "admin" }));
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("is the complete service and its client: deployments, flows, pages, and copies of the store", async () => {
    await deploy(service, { flows: endpoint("/hello", "msg.payload = `Hello`") }, "full", authorization);
    expect(await service.get("/hello", authorization)).toBe("Hello");
    const client = {
      FLOWGATE_SERVER: service.url,
      FLOWGATE_TOKEN: authorization.authorization.slice("Bearer ".length),
    };
    expect(await runExecutable(["status"], client)).toMatchObject({
      stdout: expect.stringMatching(/^Flows {2,}running$/m) as unknown,
    });
    expect(await runExecutable(["whoami", "-o", "yaml"], client)).toMatchObject({
      stdout: 'username: admin\npermissions:\n  - "*"\n',
    });
    for (const page of ["/openapi.json", "/docs", "/docs/start.js", "/docs/swagger-ui-bundle.js"]) {
      expect(await service.send("GET", page)).toMatchObject({ status: 200 });
    }
    expect(await readdir(stage.empty)).toEqual([]);
    const copy = join(stage.other, "backup.db");
    const restored = join(stage.other, "restored");
    expect(await runExecutable(["backup", copy, "--data-dir", dataDir])).toMatchObject({ stderr: "" });
    expect(await runExecutable(["restore", copy, "--data-dir", restored])).toMatchObject({ stderr: "" });
    expect(await readdir(restored)).toEqual(["flowgate.db", "flowgate.lock"]);
  });

  test("its flows are restricted as in the npm package", async () => {
    // Flows must not be able to change the unpacked program.
    const unpacked = JSON.stringify(join(await programFolder(), "dist/src/runtime/child/main.js"));
    const expected = {
      [`load("fs").readFileSync("/etc/hostname")`]: denied,
      [`load("fs").readFileSync("../credential.key")`]: denied,
      [`load("fs").readFileSync("../flowgate.db")`]: denied,
      [`load("fs").readdirSync("..")`]: denied,
      [`load("fs").readFileSync("/proc/" + host.ppid + "/environ")`]: denied,
      [`load("fs").writeFileSync("../written", "")`]: denied,
      [`load("child_process").execFileSync(host.execPath, ["--version"])`]: denied,
      [`new (load("worker_threads").Worker)("1", { eval: true }) && 1`]: denied,
      [`load("v8").setFlagsFromString("--redirect-code-traces-to=../trace")`]: denied,
      [`load("fs").writeFileSync(${unpacked}, "")`]: denied,
      [`host.kill(host.ppid, 0)`]: { code: "EPERM" },
      [`typeof load("node:sqlite")`]: { value: "undefined" },
      [`Object.keys(host.env).toSorted()`]: { value: ["HOME", "PATH"] },
      [`load("fs").writeFileSync("mine", "") ?? 1`]: { value: 1 },
    };
    expect(await outcomes(service, Object.keys(expected), authorization)).toEqual(expected);
  });
});

test("does not run the runtime program without the permission model", async () => {
  await writeFile(join(stage.other, "program.cjs"), `console.log("it ran")`);
  const program = join(stage.other, "program.cjs");
  expect(await runExecutable(["flow-runtime", program])).toMatchObject({
    code: 1,
    stdout: "",
    stderr: expect.stringContaining("Unknown command 'flow-runtime'.") as unknown,
  });
  expect(
    await runExecutable([`--node-options=--permission --allow-fs-read=${program}`, "flow-runtime", program]),
  ).toMatchObject({ stdout: "it ran\n" });
});

test("repairs its unpacked files, removes those of other versions, gives flows the permissions of the options, and ends in order", async () => {
  const folder = await programFolder();
  await truncate(join(folder, "dist/src/app/gateway.js"), 10);
  await writeFile(join(folder, "dist/src/runtime/child/main.js"), "throw new Error('changed')");
  const old = join(dataDir, "program/older");
  await mkdir(old);
  await using service = await start({
    config: { runtime: { allow: { fileSystemRead: ["/etc/hostname"], worker: true } } },
  });
  const expected = {
    [`load("fs").readFileSync("/etc/hostname").length > 0`]: { value: true },
    [`new (load("worker_threads").Worker)("1", { eval: true }) && 1`]: { value: 1 },
  };
  expect(await outcomes(service, Object.keys(expected))).toEqual(expected);
  expect(await service.stop()).toBe(0);
  expect(await readdir(join(dataDir, "program"))).toEqual([basename(folder)]);
});
