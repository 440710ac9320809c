import type { ChildProcess } from "node:child_process";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { hasCode } from "@flowgate/base/error-code";
import type { Launcher } from "./options.ts";

/**
 * Returns the id of the program that a command of a launcher has become or started; undefined while it has not been started. In
 * namespaces, the command starts their first process, which starts the program.
 */
export function findProgram(pid: number | undefined, { level }: Pick<Launcher, "level">): number | undefined {
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
export function signalOf(code: number | null, { level }: Pick<Launcher, "level">): NodeJS.Signals | null {
  if (level !== "namespaces" || code === null || code <= 128) {
    return null;
  }
  const signals = Object.entries(constants.signals) as [NodeJS.Signals, number][];
  return signals.find(([, number]) => number === code - 128)?.[0] ?? null;
}

export function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) {
    return;
  }
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if (!hasCode(error, "ESRCH")) {
      throw error;
    }
  }
}
