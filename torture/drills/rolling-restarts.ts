import {
  crash,
  endedWatches,
  failures,
  leave,
  type Place,
  plain,
  type Restarts,
  restartUnderLoad,
  withTls,
} from "../../test/e2e/rolling-restarts.ts";
import { type Load, streamsAtOnce } from "../../test/e2e/load.ts";
import type { Drill } from "../drill.ts";
import { curl } from "../programs.ts";

export const rollingRestarts: Drill = {
  name: "rolling-restarts",
  title: "Rolling restarts under load",
  promise:
    "An instance that is stopped by SIGTERM while a load balancer follows its health fails no call, and ends its streams in order.",
  method:
    "100 concurrent calls (grpc-js, `@flowgate/client` over gRPC and Connect on both versions of HTTP, curl with keep-alive) and 20 health watches " +
    "go to a virtual IP, behind which one instance is replaced by the next one, without TLS and with it. The virtual IP follows the health of the " +
    "instance. Every failed call counts. In small size, responses take half a second on their way. The control is an instance that is killed instead.",
  programs: [curl],
  async run({ pick, createFolder }) {
    const times = pick(1, 20);
    // In small size, the calls wait for the network and leave the cores to other checks.
    const latencyMs = pick(500, 0);
    const places = [plain, await withTls(await createFolder())];
    // The control takes its time too, most of it waiting.
    const [runs, killed] = await Promise.all([
      restartEach(places, { times, latencyMs, end: leave }),
      restartUnderLoad({ times: 1, latencyMs, end: crash, place: plain }),
    ]);
    const restarts = times * runs.length;
    const watches = runs.reduce((sum, tallies) => sum + endedWatches(tallies), 0);
    const expected = restarts * Object.values(streamsAtOnce).reduce((sum, count) => sum + count, 0);
    return {
      loads: [
        { name: "restarts", count: restarts, minimum: pick(2, 40) },
        {
          name: "calls",
          count: runs.reduce((sum, tallies) => sum + countCalls(tallies), 0),
          minimum: pick(500, 20_000),
        },
      ],
      figures: [{ name: "watches that ended in order", value: watches, unit: "" }],
      violations: [
        ...runs.flatMap(failures),
        ...(watches === expected ? [] : [`${watches} instead of ${expected} watches have ended in order`]),
      ],
      controls: [{ planted: "the instance is killed", found: failures(killed) }],
    };
  },
};

async function restartEach(places: readonly Place[], restarts: Omit<Restarts, "place">): Promise<Load["tallies"][]> {
  const runs: Load["tallies"][] = [];
  for (const place of places) {
    runs.push(await restartUnderLoad({ ...restarts, place }));
  }
  return runs;
}

function countCalls(tallies: Load["tallies"]): number {
  return Object.values(tallies).reduce((sum, { ok }) => sum + ok, 0);
}
