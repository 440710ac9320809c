import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { constants, setPriority } from "node:os";
import type { Duplex } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openChildChannel } from "./channel.ts";
import { formatDeadline } from "./fence.ts";
import { noteProcess } from "./leftover.ts";
import {
  type DeployStarted,
  type Deployed,
  type FromChild,
  type Ready,
  type ToChild,
  messageFd,
  watchFd,
} from "./messages.ts";
import type { CompleteOptions, Launcher } from "./options.ts";
import { createLogBudget, readOutput } from "./output.ts";
import { launchArguments, nameOptions, sandboxEnvironment, sandboxFlags } from "./sandbox.ts";

export type ChildEvents = {
  /** Called for each message, heartbeats included. */
  readonly onActivity: () => void;
  /** Called with the reason for each line and message that is too many. */
  readonly onFlood: (reason: string) => void;
  readonly onReply: (message: Ready | DeployStarted | Deployed) => void;
  /** Called when the port of HTTP-in nodes can't be opened, before the process exits. */
  readonly onListenFailed: () => void;
  /** Called once, also if the process could not be started. */
  readonly onExit: (cause: string) => void;
};

export type RuntimeProcess = {
  /** The process that runs the flows. Undefined if it could not be started, or while its namespaces are created. */
  pid(): number | undefined;
  send(message: ToChild, payload?: Uint8Array): void;
  /** Sends SIGKILL: a process with a blocked event loop does not handle SIGTERM. */
  kill(): void;
};

/** Starts a process of the flow runtime, and writes its output to the log. */
export function spawnChild(options: CompleteOptions, events: ChildEvents): RuntimeProcess {
  const log: CompleteOptions["log"] = (entry, source) =>
    options.log({ ...entry, message: nameOptions(entry.message) }, source);
  /** The first cause that the child reported, or that the channel shows. It is more specific than the exit code. */
  let cause: string | undefined;
  const exited = onceOnly((exit: string) => events.onExit(cause ?? exit));
  const notStarted: RuntimeProcess = { pid: () => undefined, send: ignore, kill: ignore };

  let child: ChildProcess;
  try {
    child = spawnWith(options);
  } catch (error) {
    // The system is out of processes or memory.
    setImmediate(() => exited(`it could not be started: ${(error as Error).message}`));
    return notStarted;
  }
  child.on("error", (error) => {
    if (child.pid === undefined) {
      exited(`it could not be started: ${error.message}`);
    }
  });
  // Undefined if there were no file descriptors for the pipes, which Node's types omit.
  const pipes = child.stdio as ChildProcess["stdio"] | undefined;
  if (pipes === undefined) {
    return notStarted;
  }
  if (child.pid !== undefined) {
    note(child.pid, options);
  }
  // See child/watchdog.ts.
  const watch = pipes[watchFd] as Duplex;
  watch.on("error", ignore);
  const renewals = options.fence?.onRenewed((deadline) => void watch.write(formatDeadline(deadline)));
  const onLogFlood = (): void => events.onFlood("a flow flooded the log");
  if (child.stdout) {
    readOutput(child.stdout, (message) => log({ level: "info", message }, "flows"), onLogFlood);
  }
  if (child.stderr) {
    readOutput(child.stderr, (message) => log({ level: "warn", message }, "flows"), onLogFlood);
  }

  // The child applies the same budget, but flows can write to the channel directly.
  const budget = createLogBudget((lines) =>
    log({ level: "warn", message: `${lines} log entries were dropped` }, "runtime"),
  );

  // Heartbeats, and replies to deployments one after another, are far fewer. Log entries have their own budget.
  const messages = createLogBudget(ignore, { lines: 2_000, windowMs: 5_000 });

  function handle(message: FromChild): void {
    switch (message.kind) {
      case "heartbeat":
        return;
      case "log":
        if (budget.take()) {
          log(message.entry, "flows");
        } else {
          budget.countDropped(1);
          onLogFlood();
        }
        return;
      case "listen-failed":
        events.onListenFailed();
        cause ??= `HTTP-in nodes can't listen on ${message.address}, port ${options.port} (runtime.port): ${message.code}`;
        return;
      case "crashed":
        if (cause !== undefined) {
          return;
        }
        cause = `it crashed: ${quoteLine(nameOptions(message.cause))}`;
        // A flow can send this message too.
        log({ level: "fatal", message: `the flow runtime crashed: ${message.cause}` }, "flows");
        return;
      case "deployed":
        events.onReply(message.failure === undefined ? message : { ...message, failure: nameOptions(message.failure) });
        return;
      case "ready":
      case "deploy-started":
        events.onReply(message);
    }
  }

  const channel = openChildChannel(pipes[messageFd] as Duplex, {
    onMessage(message) {
      events.onActivity();
      if (message.kind !== "log" && !messages.take()) {
        events.onFlood("a flow flooded the runtime's own channel");
      }
      handle(message);
    },
    onInvalidMessage() {
      cause ??= "a flow wrote into the runtime's own channel";
      kill(child);
    },
  });
  const protectPort = (port: number) => channel.send({ kind: "protect-port", port });
  options.protectedPorts.all().forEach(protectPort);
  const additions = options.protectedPorts.onAdded(protectPort);

  // A child without its channel can't be controlled. In namespaces, what has started it reports its exit a little later.
  const exitReportMs = options.launcher.level === "namespaces" ? 500 : 0;
  void channel.closed.then(() => (exitReportMs > 0 ? delay(exitReportMs) : undefined)).then(() => kill(child));

  child.on("exit", (code, signal) => {
    renewals?.[Symbol.dispose]();
    additions[Symbol.dispose]();
    // The processes that flows have spawned are in its process group.
    if (options.allow.childProcess) {
      killGroup(child);
    }
    const ended = signalOf(code, options.launcher) ?? signal;
    // Waits for the last messages, for a limited time: a process that a flow has spawned can keep the channel open.
    void Promise.race([channel.closed, delay(500, undefined, { ref: false })]).then(() => {
      channel.close();
      budget.flush();
      exited(ended === null ? `it exited with code ${code}` : `it was ended by ${ended}`);
    });
  });

  let program: number | undefined;
  return {
    pid: () => (program ??= findProgram(child.pid, options.launcher)),
    send: (message, payload) => channel.send(message, payload),
    kill: () => kill(child),
  };
}

function spawnWith({ entry, dir, allow, maxOldSpaceMb, fence, launcher }: CompleteOptions): ChildProcess {
  const flags = [
    ...sandboxFlags(entry, dir, allow),
    ...(maxOldSpaceMb === undefined ? [] : [`--max-old-space-size=${maxOldSpaceMb}`]),
  ];
  const [program = process.execPath, ...args] = [
    ...launcher.command,
    process.execPath,
    ...launchArguments(flags, fileURLToPath(entry)),
  ];
  return spawn(program, args, {
    cwd: dir,
    env: {
      ...sandboxEnvironment(allow),
      ...(fence !== undefined && { FLOWGATE_FENCING_TOKEN: String(fence.token) }),
    },
    stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
    // Starts a process group: Ctrl-C in a terminal reaches the parent only, and processes that flows spawn can be killed.
    detached: true,
  });
}

/**
 * Returns the id of the program that a command of a launcher has become or started; undefined while it has not been started. In
 * namespaces, the command starts their first process, which starts the program.
 */
function findProgram(pid: number | undefined, { level }: Pick<Launcher, "level">): number | undefined {
  return level === "namespaces" ? firstChild(firstChild(pid)) : pid;
}

function firstChild(pid: number | undefined): number | undefined {
  if (pid === undefined) {
    return undefined;
  }
  try {
    const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" ");
    return Number(child) || undefined;
  } catch {
    // It has exited.
    return undefined;
  }
}

/** The signal that has ended the program, which bubblewrap reports as a shell does; null if it has exited by itself. */
function signalOf(code: number | null, { level }: Pick<Launcher, "level">): NodeJS.Signals | null {
  if (level !== "namespaces" || code === null || code <= 128) {
    return null;
  }
  const signals = Object.entries(constants.signals) as [NodeJS.Signals, number][];
  return signals.find(([, number]) => number === code - 128)?.[0] ?? null;
}

/** A full disk must not keep the flows from running. */
function note(pid: number, { processFile, log }: CompleteOptions): void {
  try {
    if (processFile !== undefined) {
      noteProcess(processFile, pid);
    }
  } catch (error) {
    const message = `the process of the flow runtime could not be noted for the next start: ${(error as Error).message}`;
    log({ level: "warn", message }, "runtime");
  }
}

function kill(child: ChildProcess): void {
  if (child.exitCode !== null || child.signalCode !== null) {
    return;
  }
  killGroup(child);
  child.kill("SIGKILL");
}

function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) {
    return;
  }
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") {
      throw error;
    }
  }
}

function onceOnly<T>(run: (value: T) => void): (value: T) => void {
  let isDone = false;
  return (value) => {
    if (!isDone) {
      run(value);
    }
    isDone = true;
  };
}

/** Quotes the first line of what flows may have written, for a text of the service. */
function quoteLine(text: string): string {
  return JSON.stringify((text.split("\n", 1)[0] ?? "").slice(0, 300));
}

/** Listener for errors of a channel or pipe whose process has exited, which `exit` reports. */
function ignore(): void {}

const { PRIORITY_BELOW_NORMAL } = constants.priority;

/**
 * Lowers the CPU priority of the process below that of all others, as far as Linux permits: priorities belong to threads and,
 * where the kernel groups the processes of a session (autogroup, sched(7)), to the group. The process must lead its own session.
 */
export function lowerPriority(pid: number): void {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      setPriority(Number(thread), PRIORITY_BELOW_NORMAL);
    }
    writeFileSync(`/proc/${pid}/autogroup`, String(PRIORITY_BELOW_NORMAL));
  } catch {
    // It has exited, or this is not Linux or has no groups.
  }
}
