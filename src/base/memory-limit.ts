import { totalmem } from "node:os";
import { getHeapStatistics } from "node:v8";

/** What limits the memory of the process, in bytes. */
export type MemoryLimits = {
  /** The largest size of V8's heap (`--max-old-space-size`). */
  readonly heap: number;
  /** That of the cgroup, which the flow runtime shares; 0 or more than the machine has if there is none. */
  readonly constrained: number;
  readonly machine: number;
};

const MiB = 1024 * 1024;

/**
 * The default of `limits.memoryMb`: half of the heap or a quarter of the memory, whichever is less. The other half is for what is
 * not a body, the other three quarters also for the flow runtime. More than 512 MiB would serve no more deployments, since
 * they are decoded one after another.
 */
export function defaultMemoryMb({ heap, constrained, machine }: MemoryLimits = readLimits()): number {
  const memory = constrained > 0 ? Math.min(constrained, machine) : machine;
  return Math.round(Math.min(512, Math.max(64, Math.min(heap / 2, memory / 4) / MiB)));
}

function readLimits(): MemoryLimits {
  return {
    heap: getHeapStatistics().heap_size_limit,
    constrained: process.constrainedMemory(),
    machine: totalmem(),
  };
}
