import { type ChildProcess, spawn } from "node:child_process";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openChildChannel } from "./child-channel.ts";
import { confinedEnvironment, confinementFlags } from "./confinement.ts";
import { createLogBudget } from "./log-budget.ts";
import { launchArguments } from "./launch.ts";
import { type Begun, type Booted, type Deployed, type ToChild, messageFd, watchFd } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";
import { readOutput } from "./output.ts";
import { nameOptions } from "./permission-message.ts";

export type ChildEvents = {
  /** It gave a sign of life. */
  readonly heard: () => void;
  readonly answered: (message: Booted | Begun | Deployed) => void;
  /** Once, whatever ended it. */
  readonly gone: (cause: string) => void;
};

export type RuntimeProcess = {
  send(message: ToChild, payload?: Uint8Array): void;
  /** Where nothing gentler can be waited for: a blocked event loop sees no SIGTERM. */
  kill(): void;
};

/** One process of the flow runtime, and its output in the log. */
export function spawnChild(options: CompleteOptions, events: ChildEvents): RuntimeProcess {
  const { host, port, allow } = options;
  const log: CompleteOptions["log"] = (entry, source) =>
    options.log({ ...entry, message: nameOptions(entry.message) }, source);
  /** What it said of its end; only the first word of it counts. */
  let cause: string | undefined;
  const gone = onceOnly((how: string) => events.gone(cause ?? how));
  const unborn: RuntimeProcess = { send: ignore, kill: ignore };

  let child: ChildProcess;
  try {
    child = spawnWith(options);
  } catch (error) {
    // No process or memory is left for it now.
    setImmediate(() => gone(`it could not be started: ${(error as Error).message}`));
    return unborn;
  }
  child.on("error", (error) => {
    if (child.pid === undefined) gone(`it could not be started: ${error.message}`);
  });
  // Node's types don't tell of it: there are no pipes where there were no file descriptors for them.
  const pipes = child.stdio as ChildProcess["stdio"] | undefined;
  if (pipes === undefined) return unborn;
  // Never written to; see orphan-watch.ts.
  pipes[watchFd]?.on("error", ignore);
  if (child.stdout) readOutput(child.stdout, (message) => log({ level: "info", message }, "flows"));
  if (child.stderr) readOutput(child.stderr, (message) => log({ level: "warn", message }, "flows"));

  // The child keeps within such a budget too; but flows can reach the channel past it.
  const budget = createLogBudget((lines) =>
    log({ level: "warn", message: `${lines} log entries were dropped` }, "runtime"),
  );

  const channel = openChildChannel(pipes[messageFd] as Duplex, {
    message(message) {
      events.heard();
      switch (message.kind) {
        case "beat":
          return;
        case "log":
          if (budget.pass()) log(message.entry, "flows");
          else budget.drop(1);
          return;
        case "unbound":
          cause ??= `HTTP-in nodes can't listen on ${host}, port ${port} (runtime.port): ${message.code}`;
          return;
        case "dying":
          if (cause !== undefined) return;
          cause = `it crashed: ${firstLine(nameOptions(message.cause))}`;
          log({ level: "fatal", message: `the flow runtime crashed: ${message.cause}` }, "runtime");
          return;
        case "deployed":
          events.answered(
            message.failure === undefined ? message : { ...message, failure: nameOptions(message.failure) },
          );
          return;
        case "booted":
        case "begun":
          events.answered(message);
      }
    },
    broken() {
      cause ??= "a flow wrote into the runtime's own channel";
      kill(child);
    },
  });
  // Without a channel it can neither be told anything nor heard.
  void channel.ended.then(() => kill(child));

  child.on("exit", (code, signal) => {
    // What flows have spawned is in its process group.
    if (allow.childProcess) killGroup(child);
    // Its last words may still be on their way; but one that it has spawned could hold the channel open.
    void Promise.race([channel.ended, delay(500, undefined, { ref: false })]).then(() => {
      channel.close();
      budget.end();
      gone(signal === null ? `it exited with code ${code}` : `it was ended by ${signal}`);
    });
  });

  return {
    send: (message, payload) => channel.send(message, payload),
    kill: () => kill(child),
  };
}

function spawnWith({ entry, dir, allow, maxOldSpaceMb }: CompleteOptions): ChildProcess {
  return spawn(
    process.execPath,
    launchArguments(
      [
        ...confinementFlags(entry, dir, allow),
        ...(maxOldSpaceMb === undefined ? [] : [`--max-old-space-size=${maxOldSpaceMb}`]),
      ],
      fileURLToPath(entry),
    ),
    {
      cwd: dir,
      env: confinedEnvironment(dir, allow),
      stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
      // A process group of its own: Ctrl-C in a terminal is for the parent, and what flows spawn can be killed with it.
      detached: true,
    },
  );
}

function kill(child: ChildProcess): void {
  if (child.exitCode !== null || child.signalCode !== null) return;
  killGroup(child);
  child.kill("SIGKILL");
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function onceOnly<T>(run: (value: T) => void): (value: T) => void {
  let isDone = false;
  return (value) => {
    if (!isDone) run(value);
    isDone = true;
  };
}

function firstLine(text: string): string {
  return (text.split("\n", 1)[0] ?? "").slice(0, 300);
}

/** For failures of a channel or pipe whose process has gone: `exit` tells. */
function ignore(): void {}
