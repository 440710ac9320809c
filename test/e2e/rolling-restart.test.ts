import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { callsAtOnce, type Load, streamsAtOnce } from "./load.ts";
import { crash, endedWatches, failures, leave, plain, restartUnderLoad, withTls } from "./rolling-restarts.ts";

/** The number of restarts. RESTARTS=20 takes minutes on two cores. */
const restarts = Number(process.env["RESTARTS"] ?? 2);

async function countUnderLoad(...[times, end, place]: Parameters<typeof restartUnderLoad>): Promise<Load["tallies"]> {
  const tallies = await restartUnderLoad(times, end, place);
  const made = Object.entries(tallies).map(([name, { ok, failed }]) => `${name} ${ok} (${failed.length} failed)`);
  process.stdout.write(`${times} × ${end.name}: ${made.join(", ")}\n`);
  return tallies;
}

const hasCurl = spawnSync("curl", ["--version"]).status === 0;
if (!hasCurl) {
  process.stderr.write("The tests of rolling restarts are skipped: curl is not installed.\n");
}

describe.skipIf(!hasCurl)("100 concurrent calls and 20 streams", () => {
  const sum = (counts: object): number =>
    Object.values(counts).reduce<number>((total, count) => total + Number(count), 0);

  test("are that many", () => {
    expect([sum(callsAtOnce), sum(streamsAtOnce)]).toEqual([100, 20]);
  });

  // Only for tests that hang.
  const timeout = 240_000 + restarts * 30_000;

  test(`lose nothing over ${restarts} rolling restarts`, { timeout }, async () => {
    const tallies = await countUnderLoad(restarts, leave, plain);
    expect(failures(tallies)).toEqual([]);
    expect(endedWatches(tallies)).toBe(20 * restarts);
  });

  test(`lose nothing over ${restarts} rolling restarts with TLS`, { timeout }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "flowgate-rolling-"));
    try {
      const tallies = await countUnderLoad(restarts, leave, await withTls(folder));
      expect(failures(tallies)).toEqual([]);
      expect(endedWatches(tallies)).toBe(20 * restarts);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("lose calls when the instance is killed instead", { timeout }, async () => {
    expect(failures(await countUnderLoad(1, crash, plain)).length).toBeGreaterThan(0);
  });
});
