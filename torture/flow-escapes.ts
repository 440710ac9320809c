import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { openNpmRegistry } from "../packages/runtime/test/modules/npm-registry.ts";
import { runCli } from "../test/cli/run-cli.ts";
import { deploy, readRuntime } from "../test/e2e/deploy.ts";
import { endpoint, functionNode, type Node, tab } from "../test/e2e/flow-builders.ts";
import { eventually, startService } from "../test/e2e/service.ts";
import { freePort } from "../test/free-port.ts";
import { escape } from "../packages/runtime/test/flow-builders.ts";
import { plantedCode, writeFiles } from "../packages/runtime/test/planted-code.ts";
import type { Context } from "./context.ts";

/** A way in which flows try to get what only the operator has. */
export type FlowEscape = {
  readonly name: string;
  /** The fault with which the same check is made. */
  readonly planted: string;
  make(context: Context): Promise<Outcome>;
};

type Outcome = Attempt & {
  /** What the check found of the planted fault. */
  readonly found: readonly string[];
};

type Attempt = {
  /** How often the flows have tried. The drill is void if it is 0. */
  readonly tries: number;
  /** What they have gained: empty if they failed. */
  readonly gained: readonly string[];
};

export const flowEscapes: readonly FlowEscape[] = [
  { name: "code for the next start", planted: "a module in the folder of modules", make: leaveCode },
  {
    name: "timers of replaced flows",
    planted: "a service that keeps its process (runtime.freshProcess: never)",
    make: ({ createFolder }) => besideControl((isPlanted) => leaveTimer(createFolder, isPlanted ? "never" : "full")),
  },
  {
    name: "the secret of the collector of traces, while it restarts",
    planted: "a program outside of the sandbox on the port of the collector",
    make: takeSecret,
  },
  { name: "npm that is run by the operator", planted: "npm install in the folder of the runtime", make: configureNpm },
  {
    name: "the service, with processes that flows start",
    planted: "a service that does not isolate its flows (runtime.isolate: off)",
    make: () => besideControl((isPlanted) => useProcesses(isPlanted ? "off" : "required")),
  },
];

/** For a fault that needs a service of its own. */
async function besideControl(attempt: (isPlanted: boolean) => Promise<Attempt>): Promise<Outcome> {
  const [made, { gained: found }] = await Promise.all([attempt(false), attempt(true)]);
  return { ...made, found };
}

/** Flows leave a timer of the host that counts in a file, and are replaced. Returns whether it goes on counting. */
async function leaveTimer(createFolder: Context["createFolder"], freshProcess: "full" | "never"): Promise<Attempt> {
  await using service = await startService({ dataDir: await createFolder(), config: { runtime: { freshProcess } } });
  const file = join(service.dataDir, "runtime", "ticks");
  const count = async () => (await readFile(file, "utf8").catch(() => "")).length;
  await deploy(service, {
    flows: hostile(`load("timers").setInterval(() => load("fs").appendFileSync("ticks", "."), 5);`),
  });
  await eventually(async () => {
    if ((await count()) === 0) {
      throw new Error("the timer has not counted");
    }
  });
  await deploy(service, { flows: endpoint("/ok", `msg.payload = "ok"`) });
  const before = await count();
  // Two hundred times its interval.
  await delay(1_000);
  const after = await count();
  return { tries: before, gained: after > before ? [`a timer went on for ${after - before} ticks`] : [] };
}

/** Flows try to listen on the port of the collector before it listens; then another program does. */
async function takeSecret(): Promise<Outcome> {
  const port = await freePort();
  const secret = "the secret of the collector";
  const tracing = { endpoint: `http://127.0.0.1:${port}/v1/traces`, headers: { authorization: secret } };
  await using service = await startService({ config: { tracing } });
  await deploy(service, {
    flows: [
      ...hostile(`const tried = [];
        load("timers").setInterval(() => {
          for (const host of ["127.0.0.1", "0.0.0.0", "::"]) {
            load("http").createServer((request, response) => { tried.push(request.headers.authorization); response.end(); })
              .on("error", ({ code }) => tried.push(code)).listen({ port: ${port}, host, reusePort: true });
          }
        }, 100);
        global.set("tried", tried);`),
      ...endpoint("/tried", `msg.payload = global.get("tried")`),
    ],
  });
  const received: string[] = [];
  /** Makes spans, which are exported every five seconds. */
  const sendFor = async (ms: number): Promise<void> => {
    const untilMs = performance.now() + ms;
    while (performance.now() < untilMs && !received.includes(secret)) {
      await service.send("GET", "/flows");
      await delay(100);
    }
  };
  const find = (texts: readonly string[]): string[] =>
    texts.includes(secret) ? ["the header of the collector was received"] : [];
  await sendFor(8_000);
  const tried = JSON.parse(await service.get("/tried")) as string[];
  const server = createServer(({ headers }, response) => {
    received.push(headers.authorization ?? "");
    response.end();
  });
  await once(server.listen(port, "127.0.0.1"), "listening");
  await sendFor(60_000);
  server.close();
  return { tries: tried.length, gained: find(tried), found: find(received) };
}

/** Flows name a program of theirs as git in a configuration of npm, and the operator installs a module that needs git. */
async function configureNpm({ createFolder }: Context): Promise<Outcome> {
  const dependencies = { hidden: "git+ssh://git@127.0.0.1/hidden.git" };
  await using registry = await openNpmRegistry(() => [
    { name: "wanted", version: "1.0.0", manifest: { dependencies } },
  ]);
  await using service = await startService({ dataDir: await createFolder() });
  const { dataDir } = service;
  const folder = join(dataDir, "runtime");
  const files = {
    ".npmrc": `git=${join(folder, "git.sh")}\n`,
    "package.json": JSON.stringify({ dependencies }),
    "git.sh": `#!/bin/sh\ntouch ${join(dataDir, "operator")}\nexit 1\n`,
  };
  await deploy(service, {
    flows: hostile(`for (const [path, content] of Object.entries(${JSON.stringify(files)})) {
      load("fs").writeFileSync(path, content, { mode: 0o755 });
    }`),
  });
  const tries = await Promise.all(Object.keys(files).map((path) => readFile(join(folder, path))));
  const findProgram = (): string[] =>
    existsSync(join(dataDir, "operator")) ? ["a program of the flows ran as the operator"] : [];
  const install = ["module", "install", "wanted", "--registry", registry.url, "--data-dir", dataDir];
  const { stderr } = await runCli(install);
  if (!stderr.includes("from a git repository")) {
    throw new Error(`the dependency was not refused: ${stderr}`);
  }
  const gained = findProgram();
  const args = ["install", "--ignore-scripts", "--prefix", folder, "--registry", registry.url, "wanted"];
  const options = { env: { PATH: process.env["PATH"], HOME: dataDir } };
  // npm reports that this is no git.
  await new Promise<void>((resolve) => execFile("npm", args, options, () => resolve()));
  return { tries: tries.length, gained, found: findProgram() };
}

/**
 * Flows that may start processes read the files and the environment of the service with them, leave one behind, and end the service.
 * `required` fails on a machine that can't isolate flows.
 */
async function useProcesses(isolate: "required" | "off"): Promise<Attempt> {
  const secret = "an environment variable of the service";
  const marker = String(randomInt(100_000_000, 1_000_000_000));
  await using service = await startService({
    config: { runtime: { isolate, allow: { childProcess: true } } },
    env: { SERVICE_SECRET: secret },
  });
  const { pid, dataDir } = service;
  const start = `msg.payload = host.getBuiltinModule("child_process")
    .spawnSync("/bin/sh", ["-c", msg.req.query.run], { encoding: "latin1" }).stdout;`;
  const attack = endpoint("/run", `${escape} ${start}`);
  const run = (command: string): Promise<string> => service.get(`/run?run=${encodeURIComponent(command)}`);
  await deploy(service, { flows: attack });

  const gained: string[] = [];
  const key = (await readFile(join(dataDir, "credential.key"), "latin1")).trim();
  const seen = await run(`cat ${join(dataDir, "credential.key")}`);
  if (seen.includes(key)) {
    gained.push("a process read the key");
  }
  const database = await run(`cat ${join(dataDir, "*.db")}`);
  if (database.startsWith("SQLite format 3")) {
    gained.push("a process read the database");
  }
  const environments = await run(`cat /proc/${pid}/environ /proc/[0-9]*/environ`);
  if (environments.includes(secret)) {
    gained.push("a process read the environment of the service");
  }

  await run(`setsid sleep ${marker} >/dev/null 2>&1 &`);
  if ((await processesWith(marker)).length === 0) {
    throw new Error("no process was left behind");
  }
  await deploy(service, { flows: endpoint("/ok", `msg.payload = "ok"`) });
  const left = await processesWith(marker);
  if (left.length > 0) {
    gained.push("a process outlived a corrective deployment");
  }
  for (const one of left) {
    process.kill(one, "SIGKILL");
  }

  await deploy(service, { flows: attack });
  // The service ends, or answers what the command has printed.
  const hasEnded = await Promise.race([
    service.exited.then(() => true),
    run(`kill -9 ${pid}; echo tried`).then(
      () => false,
      () => service.exited.then(() => true),
    ),
  ]);
  if (hasEnded) {
    gained.push("a process ended the service");
  }
  return { tries: 5, gained };
}

/** The ids of the processes of the machine with this argument. */
async function processesWith(argument: string): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "")));
  return pids.filter((_, at) => commands[at]?.split("\0").includes(argument));
}

/** Flows write code, then are replaced, and the runtime is restarted. What it has loaded is in a file. */
async function leaveCode({ createFolder }: Context): Promise<Outcome> {
  await using service = await startService({ dataDir: await createFolder() });
  await deploy(service, {
    flows: hostile(`for (const [path, content] of Object.entries(${JSON.stringify(plantedCode)})) {
      load("fs").mkdirSync(load("path").dirname(path), { recursive: true });
      load("fs").writeFileSync(path, content);
    }`),
  });
  const folder = join(service.dataDir, "runtime");
  const written = await Promise.all(Object.keys(plantedCode).map((path) => readFile(join(folder, path), "utf8")));
  await deploy(service, { flows: endpoint("/ok", `msg.payload = "ok"`) });
  const restart = async (): Promise<string[]> => {
    await service.send("POST", "/runtime:restart");
    const { state } = await readRuntime(service);
    if (state !== "running") {
      throw new Error(`after the restart the runtime is ${state}`);
    }
    const loaded = await readFile(join(folder, "loaded"), "utf8").catch(() => "");
    const places = loaded.split("\n").filter((place) => place !== "");
    return places.map((place) => `code was loaded from ${place}`);
  };
  const gained = await restart();
  await writeFiles(join(service.dataDir, "modules"), plantedCode);
  return { tries: written.length, gained, found: await restart() };
}

/** Flows that run the code when they start, with `host` (process) and `load` (of built-in modules). */
function hostile(code: string): Node[] {
  const initialize = `${escape} const load = (name) => host.getBuiltinModule(name); ${code}`;
  return [tab("hostile"), functionNode("hostile code", { z: "hostile", initialize })];
}
