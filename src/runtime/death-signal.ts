import { spawnSync } from "node:child_process";

const setpriv = ["setpriv", "--pdeathsig", "KILL", "--"] as const;

/**
 * Returns the command that starts a program, given by the arguments after it, so that the kernel kills it when the thread ends
 * that has started it: a process can't switch that off without native code. The program replaces the command, and keeps its
 * process id. Empty where there is no such command: only Linux has that signal, and BusyBox's `setpriv` does not set it.
 *
 * Node starts processes on the thread that calls `spawn`. The signal does not survive the start of a program that has other
 * privileges than its user, such as a `node` with file capabilities, nor a change of the user or group of the process, which
 * sandbox-hardening.ts prevents.
 */
export function findDeathSignalCommand(): readonly string[] {
  if (process.platform !== "linux") return [];
  const [program, ...options] = setpriv;
  // It starts a program as it will start Node: a filter of system calls may forbid what it does before that.
  const { status } = spawnSync(program, [...options, program, "--version"], { stdio: "ignore" });
  return status === 0 ? setpriv : [];
}
