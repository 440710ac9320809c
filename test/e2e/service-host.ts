// A process that runs services of flowgate one after the other, each alone in it: service-process.ts.
import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { endMark } from "./service-process.ts";

const [, , program = ""] = process.argv;
const exit = process.exit.bind(process);
const runs = new AsyncLocalStorage<number>();
let count = 0;
let running: number | undefined;

process.on("message", (args: readonly string[]) => {
  count += 1;
  running = count;
  runs.run(count, () => void run(args));
});
process.on("disconnect", () => exit());
// A service that has ended still ends its process a second later, and on further signals.
for (const name of ["exit", "removeAllListeners"] as const) {
  const original = process[name].bind(process) as (...args: unknown[]) => unknown;
  Object.assign(process, {
    [name]: (...args: unknown[]) => (runs.getStore() === running ? original(...args) : process),
  });
}
// The output is open from here on. Each service leaves the process as it is now.
const outputs = [process.stdout, process.stderr];
const idle = process.getActiveResourcesInfo().length;

async function run(args: readonly string[]): Promise<void> {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"] as const) {
    process.removeAllListeners(signal);
  }
  outputs.forEach((output) => output.removeAllListeners("error"));
  process.argv = [process.execPath, program, ...args];

  // The entry point is evaluated again, with the modules that it has imported before.
  await import(`${pathToFileURL(program).href}?${count}`);
  // A process of its own would not end before.
  while (process.getActiveResourcesInfo().length > idle) {
    await delay(1);
  }
  if (process.exitCode !== undefined) {
    exit();
  }
  running = undefined;
  outputs.forEach((output) => output.write(endMark));
}
