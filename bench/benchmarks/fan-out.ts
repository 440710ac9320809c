import { setTimeout as delay } from "node:timers/promises";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { type Loader, openLoader } from "../load/loader.ts";
import { openService, type Service } from "../service.ts";
import { formatSpread, median } from "../statistics.ts";

const streams = 1_000;

type Protocol = {
  readonly name: string;
  readonly protocol: "sse" | "grpc";
  readonly goalMs: number;
  /** CPU time of one event to all streams. */
  readonly cpuMs: number[];
  /** Of an open stream. */
  readonly heapKiB: number[];
};

/** 15 KB. */
const heapGoalKiB = 14.6;

export const fanOut: Benchmark = {
  name: "fan-out",
  title: "Server streams: one event to 1,000 streams of GET /events over SSE, and of WatchEvents over gRPC",
  async run({ starts, rounds, profileDir }: Effort): Promise<Result> {
    const protocols: Protocol[] = [
      { name: "SSE, each stream on its own connection", protocol: "sse", goalMs: 12, cpuMs: [], heapKiB: [] },
      { name: "gRPC, 100 streams on a connection", protocol: "grpc", goalMs: 7, cpuMs: [], heapKiB: [] },
    ];
    const deploymentMs: number[] = [];
    for (let start = 0; start < starts; start++) {
      for (const each of protocols) {
        await using service = await openService(
          { profileDir },
          { runtime: { mode: "none" }, limits: { inFlight: 0, inFlightPerSource: 0, eventLoopDelayMs: 0 } },
        );
        deploymentMs.push(...(await measure(service, each, 4 * rounds)));
      }
    }
    return {
      figures: protocols.flatMap(({ name, goalMs, cpuMs, heapKiB }) => {
        const protocol = name.replace(/,.*/, "");
        return [
          {
            title: `one event to 1,000 streams over ${protocol}: CPU`,
            unit: "ms",
            values: cpuMs,
            goal: { kind: "atMost", value: goalMs },
          },
          {
            title: `an open stream over ${protocol}: heap`,
            unit: "KiB",
            values: heapKiB,
            goal: { kind: "atMost", value: heapGoalKiB },
          },
        ];
      }),
      rows: [
        ...protocols.map(({ name, cpuMs, heapKiB }) => ({
          "": name,
          "CPU of one event to 1,000, ms": formatSpread(cpuMs),
          lowest: Math.min(...cpuMs).toFixed(1),
          "heap of a stream, KiB": formatSpread(heapKiB),
        })),
        {
          "": "the deployment without streams, subtracted",
          "CPU of one event to 1,000, ms": formatSpread(deploymentMs),
          lowest: Math.min(...deploymentMs).toFixed(1),
          "heap of a stream, KiB": "",
        },
      ],
      chart: [
        {
          title: "CPU of one event to 1,000 streams, ms",
          bars: protocols.map(({ name, cpuMs }) => ({ label: name, values: cpuMs })),
        },
      ],
    };
  },
};

/** Measures deployments with streams, and before them without. Returns the CPU times of the latter. */
async function measure(service: Service, { protocol, cpuMs, heapKiB }: Protocol, rounds: number): Promise<number[]> {
  await using loader = openLoader();
  // Compiles the code, also that of streams.
  await loader.watchEvents({ protocol, url: service.url, authorization: service.authorization, streams: 100 });
  await repeat(rounds, () => deploy(service));
  await loader.close();
  const without = await repeat(rounds, () => cpuOf(service, () => deploy(service)));
  const heapBefore = await heapOf(service);
  await loader.watchEvents({ protocol, url: service.url, authorization: service.authorization, streams });
  heapKiB.push(((await heapOf(service)) - heapBefore) / 1024 / streams);
  const events = await countEvents(service, loader);
  const cost = median(without);
  let received = await loader.received();
  await repeat(rounds, async () => {
    received += events * streams;
    const total = await cpuOf(service, async () => {
      await deploy(service);
      await loader.untilReceived(received);
    });
    cpuMs.push((total - cost) / events);
  });
  return without;
}

async function heapOf(service: Service): Promise<number> {
  const { heapBytes } = await service.usageAfterCollection();
  return heapBytes ?? Number.NaN;
}

/** The number of events about one deployment. */
async function countEvents(service: Service, loader: Loader): Promise<number> {
  const before = await loader.received();
  await deploy(service);
  await loader.untilReceived(before + streams);
  await delay(1_000);
  return ((await loader.received()) - before) / streams;
}

async function cpuOf(service: Service, work: () => Promise<void>): Promise<number> {
  const before = await service.usage();
  await work();
  // What follows the last write, such as its callbacks.
  await delay(20);
  return (await service.usage()).cpuMs - before.cpuMs;
}

async function deploy({ url, authorization }: Service): Promise<void> {
  const response = await fetch(`${url}/flows`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization },
    body: "[]",
  });
  await response.bytes();
  if (!response.ok) {
    throw new Error(`a deployment was answered ${response.status}`);
  }
}

async function repeat<T>(count: number, work: () => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let each = 0; each < count; each++) {
    results.push(await work());
  }
  return results;
}
