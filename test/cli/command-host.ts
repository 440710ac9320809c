// A process that runs commands of flowgate one after the other, each with a stdin, stdout and stderr of its own: run-command.ts.
import { PassThrough } from "node:stream";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";
import type { Command, Outcome } from "./run-cli.ts";

const [, , program = ""] = process.argv;
const home = process.cwd();
let count = 0;

process.on("message", (command: Command) => {
  void run(command).then((outcome) => process.send?.(outcome));
});
process.on("disconnect", () => process.exit());
// This alone keeps the process alive, and each command leaves it like that.
const idle = process.getActiveResourcesInfo().length;

async function run({ args, input, env, cwd = home }: Command): Promise<Outcome> {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  for (const [name, value] of Object.entries(streams)) {
    Object.defineProperty(process, name, { value, configurable: true });
  }
  streams.stdin.end(input);
  const output = Promise.all([text(streams.stdout), text(streams.stderr)]);
  for (const name of Object.keys(process.env)) {
    delete process.env[name];
  }
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined) {
      process.env[name] = value;
    }
  }
  process.chdir(cwd);
  process.argv = [process.execPath, program, ...args];
  process.exitCode = undefined;
  // A command line of the service that starts none leaves it changed.
  setFlagsFromString("--semi-space-growth-factor=2");

  // The entry point is evaluated again, with the modules that it has imported before.
  count += 1;
  await import(`${pathToFileURL(program).href}?${count}`);
  // A process of its own would not end before.
  while (process.getActiveResourcesInfo().length > idle) {
    await delay(1);
  }
  streams.stdout.end();
  streams.stderr.end();
  const [stdout, stderr] = await output;
  process.chdir(home);
  return { code: exitCode(), stdout, stderr };
}

function exitCode(): number {
  return Number(process.exitCode ?? 0);
}
