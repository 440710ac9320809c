import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { cliEnvironment, type Command, mainPath, type Outcome } from "./run-cli.ts";

const hostPath = fileURLToPath(new URL("command-host.ts", import.meta.url));

/** Processes that wait for a command. Those of a worker are shared by its test files. */
const idle: ChildProcess[] = [];

/**
 * Runs flowgate like `runCli`, in a process that has run other commands before: it has loaded their modules, which takes most of the
 * time of a command. Not for a service that starts, and not for what belongs to a process: signals, terminals, variables that Node reads at its start.
 */
export async function runCommand(
  args: readonly string[],
  { input = "", env = {}, cwd }: Partial<Pick<Command, "input" | "cwd">> & { env?: Record<string, string> } = {},
): Promise<Outcome> {
  const host = takeIdle() ?? startHost();
  const ended = new AbortController();
  const { signal } = ended;
  try {
    const outcome = Promise.race([
      once(host, "message", { signal }),
      once(host, "exit", { signal }).then(() => {
        throw new Error(`flowgate ${args.join(" ")}: its process has ended`);
      }),
    ]);
    host.send({ args, input, env: cliEnvironment(env), cwd } satisfies Command);
    const [message] = (await outcome) as [Outcome];
    idle.push(host);
    return message;
  } finally {
    ended.abort();
  }
}

/** One that a command has ended is left out. */
function takeIdle(): ChildProcess | undefined {
  let host = idle.pop();
  while (host?.connected === false) {
    host = idle.pop();
  }
  return host;
}

function startHost(): ChildProcess {
  const host = fork(hostPath, [mainPath], {
    env: cliEnvironment(),
    execArgv: [],
    serialization: "advanced",
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  // It ends with the worker.
  host.unref();
  host.channel?.unref();
  return host;
}
