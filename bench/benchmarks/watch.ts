import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { openLoader } from "../load/loader.ts";
import { openGo, goUnavailableReason } from "../peers/go.ts";
import { openPeer } from "../peers/open.ts";
import type { Server } from "../server.ts";
import { openService } from "../service.ts";
import { formatSpread } from "../statistics.ts";

const streams = 1_000;
/** 100 streams per connection, the default limit of gRPC servers. */
const connections = 10;

type Watched = {
  readonly name: string;
  readonly open: () => Promise<Server>;
  readonly kibibytes: number[];
  readonly cpuMs: number[];
};

export const watch: Benchmark = {
  name: "watch",
  title: "Server streams: 1,000 of grpc.health.v1.Health/Watch, and one message to all of them",
  async run({ starts, profileDir }: Effort): Promise<Result> {
    const reason = await goUnavailableReason();
    const contenders: Watched[] = [
      {
        name: "Flowgate",
        // Its health changes when it drains, and it serves calls during this delay.
        open: () =>
          openService({ profileDir }, { drain: { delayMs: 30_000 }, limits: { inFlight: 0, inFlightPerSource: 0 } }),
        kibibytes: [],
        cpuMs: [],
      },
      { name: "grpc-js", open: () => openPeer("grpc-js.ts"), kibibytes: [], cpuMs: [] },
      ...(reason === undefined ? [{ name: "grpc-go", open: () => openGo("grpc"), kibibytes: [], cpuMs: [] }] : []),
    ];
    for (let start = 0; start < Math.max(2, starts); start++) {
      for (const contender of contenders) {
        await measure(contender);
      }
    }
    const [ours] = contenders;
    return {
      figures: [
        {
          title: "a watch stream's memory",
          unit: "KiB",
          values: ours?.kibibytes ?? [],
          goal: { kind: "atMost", value: 20 },
        },
        {
          title: "1,000 watch streams, one message to all: CPU",
          unit: "ms",
          values: ours?.cpuMs ?? [],
          goal: { kind: "atMost", value: 7 },
        },
      ],
      rows: contenders.map(({ name, kibibytes, cpuMs }) => ({
        "": name,
        "memory of a stream, KiB": formatSpread(kibibytes),
        "CPU of one message to 1,000, ms": formatSpread(cpuMs),
      })),
      chart: [
        {
          title: "memory of a stream, KiB",
          bars: contenders.map(({ name, kibibytes }) => ({ label: name, values: kibibytes })),
        },
        {
          title: "CPU of one message to all, ms",
          bars: contenders.map(({ name, cpuMs }) => ({ label: name, values: cpuMs })),
        },
      ],
      notes: reason === undefined ? [] : [`grpc-go: not run: ${reason}`],
    };
  },
};

/** Measures memory as the growth of the resident set, after garbage collections. */
async function measure({ open, kibibytes, cpuMs }: Watched): Promise<void> {
  await using server = await open();
  await using loader = openLoader();
  // Warms up: compiles code and fills pools of libraries.
  await loader.watch(server.url, connections, 10 * connections);
  await loader.close();
  const empty = await server.usageAfterCollection();
  await loader.watch(server.url, connections, streams);
  const full = await server.usageAfterCollection();
  kibibytes.push((full.rssBytes - empty.rssBytes) / 1024 / streams);
  const before = await server.usage();
  process.kill(server.pid, "SIGTERM");
  await loader.untilNotified();
  const after = await server.usage();
  cpuMs.push(after.cpuMs - before.cpuMs);
}
