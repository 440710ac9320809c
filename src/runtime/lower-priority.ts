import { readdirSync, writeFileSync } from "node:fs";
import { constants, setPriority } from "node:os";

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
