import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../free-port.ts";
import { expectOutput, parseTranscript } from "./transcript.ts";

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
async function start(cwd: string, flags: string[]): Promise<Running> {
  const [port, flowsPort] = [await freePort(), await freePort()];
  const service = spawn("npm", ["start", "--", "--port", `${port}`, "--runtime-port", `${flowsPort}`, ...flags], {
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

describe("without users", () => {
  let checkout: Checkout;
  let service: Running;
  beforeAll(async () => {
    checkout = await createCheckout();
    service = await start(checkout.path, []);
  });
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]();
    await checkout?.[Symbol.asyncDispose]();
  });

  test("looks as its beginning shows", async () => {
    const deployed = block("sh", "flowgate deploy");
    expect(await service.run(deployed)).toMatch(/^4 added, [^]* Its flows are running\.\nHello$/);

    const [define = ""] = deployed.split("\n");
    for (const { command, output } of parseTranscript(block("console", "$ flowgate deploy"))) {
      const real = await service.run(`${define}\n${command}`);
      const history = (await (await fetch(`${service.url}/revisions`)).json()) as { revisions: { rev: string }[] };
      const revs = history.revisions.map(({ rev }) => rev);
      expectOutput(output.trimEnd(), real.trimEnd(), revs);
    }
    expect(await service.run("curl http://127.0.0.1:1880/hello")).toBe("Hello");
  });

  test("deploys with curl", async () => {
    const v1 = await service.run(block("sh", "`Hello`; return msg;"));
    expect(v1).toMatch(/^HTTP\/1\.1 204 [^]*Hello$/);

    const v2 = block("sh", "flows.json");
    expect(await service.run(v2)).toMatch(/^HTTP\/1\.1 200 [^]*\{"rev":"[^"]+"\}Hello again$/);

    // "The same command once more": what was read is not the active revision any more.
    const deploy = /^curl -i .*?\n.*nodes'$/ms.exec(v2)?.[0] ?? "";
    expect(await service.run(deploy)).toMatch(/^HTTP\/1\.1 409 [^]*"code":"version_mismatch"/);

    expect(await service.run(block("sh", "flows:undo"))).toMatch(
      /^\{"revisions":\[.*\}0 added, 0 removed, 1 changed\n[^]*`Hello` *; return msg;" -> "msg.payload = `Hello again`[^]*HTTP\/1\.1 200 [^]*Hello$/,
    );
  });
});

test("hashes a password, and works with tokens: with curl, with the generated client and with buf", async () => {
  await using checkout = await createCheckout();
  const command = /^\$ (.*hash-password)$/m.exec(block("console", "hash-password"))?.[1] ?? "";
  const { stdout: hash } = await promisify(execFile)("bash", ["-euc", `echo correct-horse | ${command}`], {
    cwd: checkout.path,
  });
  const config = block("yaml", "adminAuth").replace(/"\$argon2id[^"]*"/, JSON.stringify(hash.trim()));
  await writeFile(join(checkout.path, "flowgate.yaml"), config);

  await using service = await start(checkout.path, ["--config", "flowgate.yaml"]);
  const steps = ["/auth/token", "examples/deploy.ts", "npx buf curl", "/auth/revoke"];
  const output = await service.run(steps.map((step) => block("sh", step)).join(""));
  expect(output).toMatch(
    /^\[\]Hello from gRPC, revision \S+\n\{[^]*"apiVersions":[^]*"username":\s*"admin"[^]*HTTP\/1\.1 200 [^]*content-length: 0/i,
  );
  expect(await service.run("curl -si http://127.0.0.1:8080/flows")).toMatch(/^HTTP\/1\.1 401 /);
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
