import { expect, test } from "vitest";
import { defaultMemoryMb, type MemoryLimits } from "../../src/options/limits.ts";

const GiB = 1024 ** 3;

const limits: readonly [what: string, limits: MemoryLimits, memoryMb: number][] = [
  ["half of the heap", { heap: GiB / 2, constrained: 0, machine: 24 * GiB }, 256],
  ["a quarter of the machine", { heap: 4 * GiB, constrained: 0, machine: GiB }, 256],
  ["a quarter of the cgroup", { heap: 4 * GiB, constrained: GiB / 2, machine: 24 * GiB }, 128],
  ["a cgroup without a limit", { heap: GiB / 2, constrained: 2 ** 64, machine: 24 * GiB }, 256],
  ["at least 64 MiB", { heap: GiB / 16, constrained: GiB / 8, machine: GiB }, 64],
  ["at most 512 MiB", { heap: 8 * GiB, constrained: 0, machine: 64 * GiB }, 512],
];

test.each(limits)("%s", (_what, given, memoryMb) => {
  expect(defaultMemoryMb(given)).toBe(memoryMb);
});
