import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../free-port.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const readme = await readFile(join(root, "README.md"), "utf8");

/** The code of the README in this language, in order. */
const blocks = (language: string): string[] =>
  [...readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, "gms"))].map(([, code = ""]) => code);

const block = (language: string, mark: string): string => {
  const found = blocks(language).filter((code) => code.includes(mark));
  expect(found, `README blocks with ${mark}`).toHaveLength(1);
  return found[0] ?? "";
};

type Checkout = AsyncDisposable & { path: string };

/** A folder that looks like a checkout, for what the commands write must not land in this one. */
async function createCheckout(): Promise<Checkout> {
  const path = await mkdtemp(join(tmpdir(), "flowgate-readme-"));
  for (const name of [
    "node_modules",
    "package.json",
    "buf.yaml",
    "packages",
    "proto",
    "gen",
    "examples",
    "scripts",
    "src",
  ]) {
    await symlink(join(root, name), join(path, name));
  }
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

type Running = AsyncDisposable & { url: string; run: (code: string) => Promise<string> };

/** Starts the service by the README's command, on free ports; `run` takes its shell code with these ports. */
async function start(cwd: string): Promise<Running> {
  const [port, flowsPort] = [await freePort(), await freePort()];
  const service = spawn("npm", ["start", "--", "--port", `${port}`, "--runtime-port", `${flowsPort}`], {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  await new Promise<void>((resolve, reject) => {
    service.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes("Flowgate listens on") && output.includes("the flow runtime is running")) {
        resolve();
      }
    });
    service.once("exit", () => reject(new Error(`npm start ended:\n${output}`)));
  });
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    async run(code) {
      const ported = code.replaceAll(":8080", `:${port}`).replaceAll(":1880", `:${flowsPort}`);
      const defaultUrl = ported.replaceAll("examples/deploy.ts", `examples/deploy.ts ${url}`);
      const env = { ...process.env, FLOWGATE_SERVER: url };
      const { stdout } = await promisify(execFile)("bash", ["-euc", defaultUrl], { cwd, env });
      return stdout;
    },
    async [Symbol.asyncDispose]() {
      const exit = once(service, "exit");
      service.kill("SIGTERM");
      await exit;
    },
  };
}

test("has one command to run and one to test, and they are scripts of this package", () => {
  const shell = blocks("sh");
  expect(shell[0]).toBe("npm install && npm start\n");
  expect(shell.at(-1)).toBe("npm install && npm test\n");
});

describe("in a checkout", () => {
  let checkout: Checkout;
  let service: Running;
  beforeAll(async () => {
    checkout = await createCheckout();
    service = await start(checkout.path);
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    await checkout?.[Symbol.asyncDispose]();
  });

  test("deploys with curl", async () => {
    expect(await service.run(block("sh", "`Hello`; return msg;"))).toMatch(/^HTTP\/1\.1 204 [^]*Hello$/);
    expect(await service.run(block("sh", "flows:undo"))).toMatch(/^\{"revisions":\[.*\}HTTP\/1\.1 200 /);
  });

  test("deploys with the generated client, and calls an RPC with buf", async () => {
    expect(await service.run(block("sh", "examples/deploy.ts"))).toMatch(/^Hello from gRPC, revision \S+\n$/);
    expect(JSON.parse(await service.run(block("sh", "npx buf curl")))).toHaveProperty("apiVersions");
  });
});

test("shows the client as the example has it", async () => {
  const example = await readFile(join(root, "examples", "deploy.ts"), "utf8");
  const shown = block("ts", "createClient");
  for (const call of [
    "createClient(FlowsService",
    "createGrpcTransport(",
    "await flows.getFlows({})",
    "await flows.setFlows({",
    "deploymentType: DeploymentType.NODES",
  ]) {
    expect(shown).toContain(call);
    expect(example).toContain(call);
  }
});
