// Runs Node-RED's own tests of its admin API against this service, unmodified, from a checkout of its sources whose dependencies are installed:
// `npm run node-red-specs -- ~/node-red [--verbose]`. Each test runs three times: with its own routers, with a real Node-RED, and with this service.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startToolService } from "../e2e/tools.ts";
import { writeFiles } from "../../packages/runtime/test/planted-code.ts";
import { formatReport, judge } from "./report.ts";
import { credentialsModule } from "./server-state.ts";
import type { SpecResult } from "./specs.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { verbose: { type: "boolean", default: false } },
});
const checkout = resolve(positionals[0] ?? "");
if (positionals.length !== 1 || !existsSync(join(checkout, "node_modules/mocha"))) {
  throw new Error("name a checkout of Node-RED, in which npm install was run: npm run node-red-specs -- PATH");
}

const contextStorage = { default: { module: "memory" }, file: { module: "localfilesystem" } };

const own = await runSpecs("", "");
const nodeRed = await runOnNodeRed();
const service = await runOnService();
const verdicts = judge(own, nodeRed, service);
const { text, isExpected } = formatReport(verdicts, values.verbose);
process.stdout.write(text);
process.exitCode = isExpected ? 0 : 1;

async function runOnNodeRed(): Promise<SpecResult[]> {
  await using dir = await mkdtempDisposable(join(tmpdir(), "flowgate-node-red-"));
  const modulesDir = join(dir.path, "node_modules");
  await writeModule(dir.path);
  const program = fileURLToPath(new URL("../fixtures/e2e/node-red-editor.ts", import.meta.url));
  const settings = JSON.stringify({ contextStorage, runtimeState: { enabled: true } });
  const child = spawn(process.execPath, [program, dir.path, settings], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [line] = (await once(createInterface(child.stdout), "line")) as [string];
    const { adminPort } = JSON.parse(line) as { adminPort: number };
    return await runSpecs(`http://127.0.0.1:${adminPort}`, modulesDir);
  } finally {
    child.kill();
    await once(child, "exit");
  }
}

async function runOnService(): Promise<SpecResult[]> {
  await using service = await startToolService({
    config: { nodeRed: { port: 0, editor: true }, runtime: { contextStorage } },
    prepare: (dataDir) => writeModule(join(dataDir, "modules")),
  });
  return await runSpecs(service.toolsUrl, join(service.dataDir, "modules/node_modules"));
}

/** The module whose nodes have credentials. */
async function writeModule(folder: string): Promise<void> {
  const { name, type, credentials } = credentialsModule;
  await writeFiles(join(folder, "node_modules", name), {
    "package.json": JSON.stringify({ name, version: "1.0.0", "node-red": { nodes: { set: "set.js" } } }),
    "set.js": `module.exports = (RED) => RED.nodes.registerType("${type}", function (config) { RED.nodes.createNode(this, config); },
      ${JSON.stringify({ credentials })});`,
    "set.html": `<script type="text/html" data-template-name="${type}"></script>`,
    // Node-RED looks for the folder when it starts.
    "resources/empty.txt": "",
  });
  await writeFiles(folder, { "package.json": JSON.stringify({ dependencies: { [name]: "1.0.0" } }) });
}

async function runSpecs(url: string, modulesDir: string): Promise<SpecResult[]> {
  const results: SpecResult[] = [];
  const child = fork(fileURLToPath(new URL("specs.ts", import.meta.url)), [checkout, url, modulesDir], {
    // Some tests print what they do.
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  child.on("message", (result) => results.push(result as SpecResult));
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0 || results.length === 0) {
    throw new Error(`the tests have ended with ${code} after ${results.length} results`);
  }
  return results;
}
