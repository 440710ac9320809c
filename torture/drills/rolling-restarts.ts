import { plain, restartUnderLoad, watchesAtOnce, withTls } from "../../test/e2e/rolling-restarts.ts";
import { withoutRuntime } from "../../test/e2e/service.ts";
import type { Drill } from "../drill.ts";
import { curl } from "../programs.ts";

export const rollingRestarts: Drill = {
  name: "rolling-restarts",
  title: "Rolling restarts under load",
  promise:
    "An instance that is stopped by SIGTERM while a load balancer follows its health fails no call, and ends its streams in order.",
  method:
    "100 concurrent calls (grpc-js, `@flowgate/client` over gRPC and Connect on both versions of HTTP, curl with keep-alive) and 20 health watches go to a virtual IP that follows the health of instances, which are replaced one by one, with and without TLS. Every failed call counts.",
  programs: [curl],
  async run({ pick, createFolder }) {
    const times = pick(1, 20);
    // In small size, the calls wait for the network and leave the cores to other checks.
    const latencyMs = pick(1_000, 0);
    const secure = await withTls(await createFolder(), pick<object>(withoutRuntime, {}));
    const first = await restartUnderLoad({ times, latencyMs, place: plain, crashes: true });
    const second = await restartUnderLoad({ times, latencyMs, place: secure, crashes: false });
    const watches = first.endedWatches + second.endedWatches;
    const expected = 2 * times * watchesAtOnce;
    return {
      loads: [
        { name: "restarts", count: 2 * times, minimum: pick(2, 40) },
        { name: "calls", count: first.calls + second.calls, minimum: pick(500, 20_000) },
      ],
      figures: [{ name: "watches that ended in order", value: watches, unit: "" }],
      violations: [
        ...first.failures,
        ...second.failures,
        ...(watches === expected ? [] : [`${watches} instead of ${expected} watches have ended in order`]),
      ],
      controls: [{ planted: "the instance is killed", found: first.failuresOfCrash }],
    };
  },
};
