import { readdirSync, writeFileSync } from "node:fs";
import { constants, setPriority } from "node:os";

const { PRIORITY_BELOW_NORMAL } = constants.priority;

/**
 * Lets all other processes have the CPU before this one, as far as Linux lets it be: a priority is that of a thread, and where the kernel
 * groups the processes of a session (autogroup in sched(7)), that of the group. The process must lead a session of its own.
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
