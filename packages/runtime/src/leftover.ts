import { readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { hasCode } from "@flowgate/base/error-code";

/** `identity`: pid, start time, PID namespace and boot id, as one line of the file. */
type Noted = { readonly pid: number; readonly identity: string };

const ignoring = { warn() {}, error() {} };

/** Receives what is done about processes. */
type Log = Readonly<Record<"warn" | "error", (fields: object, message: string) => void>>;

/**
 * Notes a process in a file, so that the next start of the service finds it if this one is killed. Notes of processes that still run
 * are kept. Must be called before the event loop could handle its exit. Does nothing without Linux's /proc. Flows must not have
 * access to the file.
 */
export function noteProcess(file: string, pid: number): void {
  const identity = identify(pid);
  if (identity === undefined) {
    return;
  }
  writeFileSync(file, [...readRunning(file), { identity }].map((noted) => noted.identity).join(""), { mode: 0o600 });
}

/**
 * Ends the processes that are noted in the file, and their process groups, if they still run: the service that started them was
 * killed. They could hold the service's port. A process is killed only if its identity is unchanged. Resolves when they have exited.
 */
export async function endLeftovers(file: string, log: Log = ignoring): Promise<void> {
  await Promise.all(readRunning(file).map((noted) => endLeftover(noted, log)));
}

async function endLeftover({ pid, identity }: Noted, log: Log): Promise<void> {
  log.warn({ pid }, "a flow runtime process of an earlier run of the service is still running: it is killed");
  try {
    // Each process of the runtime has a group of its own.
    process.kill(-pid, "SIGKILL");
    await untilExited(pid, identity);
  } catch (err) {
    log.error({ err, pid }, "the flow runtime process of an earlier run could not be killed: kill it by hand");
  }
}

function readRunning(file: string): Noted[] {
  const identities = read(file)?.match(/.+\n/g) ?? [];
  return identities
    .map((identity) => ({ pid: Number.parseInt(identity, 10), identity }))
    .filter(({ pid, identity }) => isRunning(pid, identity));
}

/** The exit of a process that is no child of this one can only be polled. */
async function untilExited(pid: number, identity: string): Promise<void> {
  const limitMs = performance.now() + 5_000;
  while (isRunning(pid, identity)) {
    if (performance.now() > limitMs) {
      throw new Error("the process has not exited within 5 s");
    }
    await delay(10);
  }
}

function isRunning(pid: number, identity: string): boolean {
  return pid > 1 && identify(pid) === identity;
}

/**
 * Process ids are reused, but not with the same start time within one boot. Containers that share a directory have their own
 * process ids. Undefined if the process has exited, or without /proc.
 */
function identify(pid: number): string | undefined {
  const stat = read(`/proc/${pid}/stat`);
  const bootId = read("/proc/sys/kernel/random/boot_id");
  if (stat === undefined || bootId === undefined) {
    return undefined;
  }
  // proc_pid_stat(5). The name, in parentheses, can contain any character.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state, threads, startTime] = [fields[0], fields[17], fields[19]];
  // The process has exited only if the zombie main thread is its last one: other threads may still hold files open.
  if (state === "Z" && threads === "1") {
    return undefined;
  }
  return `${pid} ${startTime} ${readlinkSync("/proc/self/ns/pid")} ${bootId}`;
}

/** Undefined: there is no such file or process. */
function read(path: string): string | undefined {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    if (hasCode(error, "ENOENT", "ESRCH")) {
      return undefined;
    }
    throw error;
  }
}
