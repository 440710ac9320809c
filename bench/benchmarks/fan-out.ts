import { setTimeout as delay } from "node:timers/promises";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { type Loader, openLoader } from "../load/loader.ts";
import { openPeer } from "../peers/open.ts";
import { openService, type Service } from "../service.ts";
import { formatSpread, median } from "../statistics.ts";

const streams = 1_000;

/** About that of the event of a deployment over SSE, with its framing. */
const eventBytes = 420;

type Protocol = {
  readonly name: string;
  readonly protocol: "sse" | "grpc";
  readonly goalMs: number;
  /** CPU time of one event to all streams. */
  readonly cpuMs: number[];
  /** The same, as a multiple of that of bare sockets in the same round. */
  readonly multiples: number[];
  /** Of an open stream. */
  readonly heapKiB: number[];
};

/** 15 KB. */
const heapGoalKiB = 14.6;

export const fanOut: Benchmark = {
  name: "fan-out",
  title: "Server streams: one event to 1,000 streams of GET /events over SSE, and of WatchEvents over gRPC",
  async run({ starts, rounds, profileDir }: Effort): Promise<Result> {
    const none = () => ({ cpuMs: [], multiples: [], heapKiB: [] });
    const protocols: Protocol[] = [
      { name: "SSE, each stream on its own connection", protocol: "sse", goalMs: 12, ...none() },
      { name: "gRPC, 100 streams on a connection", protocol: "grpc", goalMs: 7, ...none() },
    ];
    const floorMs: number[] = [];
    const deploymentMs: number[] = [];
    for (let start = 0; start < starts; start++) {
      await using floor = await openPeer("bare-sockets.ts", String(eventBytes));
      await using floorLoader = openLoader();
      const bare = await openStreams({ ...floor, authorization: "" }, floorLoader, "sse", 4 * rounds);
      for (const { protocol, cpuMs, multiples, heapKiB } of protocols) {
        await using service = await openService(
          { profileDir },
          { runtime: { mode: "none" }, limits: { inFlight: 0, inFlightPerSource: 0, eventLoopDelayMs: 0 } },
        );
        await using loader = openLoader();
        const opened = await openStreams(service, loader, protocol, 4 * rounds);
        deploymentMs.push(...opened.deploymentMs);
        heapKiB.push(opened.heapKiB);
        await repeat(4 * rounds, async () => {
          const ofBare = await bare.cpuOfEvent();
          const ofEvent = await opened.cpuOfEvent();
          floorMs.push(ofBare);
          cpuMs.push(ofEvent);
          multiples.push(ofEvent / ofBare);
        });
      }
    }
    const rowOf = (name: string, cpuMs: readonly number[], multiples: string, heapKiB: string) => ({
      "": name,
      "CPU of one event to 1,000, ms": formatSpread(cpuMs),
      lowest: Math.min(...cpuMs).toFixed(1),
      "multiple of the floor": multiples,
      "heap of a stream, KiB": heapKiB,
    });
    return {
      figures: protocols.flatMap(({ name, goalMs, cpuMs, multiples, heapKiB }) => {
        const protocol = name.replace(/,.*/, "");
        const title = `one event to 1,000 streams over ${protocol}: CPU`;
        return [
          { title, unit: "ms", values: cpuMs, goal: { kind: "atMost", value: goalMs } },
          { title: `${title}, multiple of 1,000 bare writes`, unit: "x", values: multiples },
          {
            title: `an open stream over ${protocol}: heap`,
            unit: "KiB",
            values: heapKiB,
            goal: { kind: "atMost", value: heapGoalKiB },
          },
        ];
      }),
      rows: [
        ...protocols.map(({ name, cpuMs, multiples, heapKiB }) =>
          rowOf(name, cpuMs, formatSpread(multiples), formatSpread(heapKiB)),
        ),
        rowOf("the floor: a loop of writes to 1,000 bare sockets", floorMs, "", ""),
        rowOf("the deployment without streams, subtracted", deploymentMs, "", ""),
      ],
      chart: [
        {
          title: "CPU of one event to 1,000 streams, ms",
          bars: [
            ...protocols.map(({ name, cpuMs }) => ({ label: name, values: cpuMs })),
            { label: "1,000 bare writes", values: floorMs },
          ],
        },
      ],
    };
  },
};

type Watched = {
  /** CPU times of deployments without streams. */
  readonly deploymentMs: readonly number[];
  /** Of an open stream. */
  readonly heapKiB: number;
  /** Deploys, and returns the CPU time of one event to all streams, without that of the deployment itself. */
  cpuOfEvent(): Promise<number>;
};

/** Measures deployments without streams, and then opens them. */
async function openStreams(
  service: Service,
  loader: Loader,
  protocol: "sse" | "grpc",
  rounds: number,
): Promise<Watched> {
  const { url, authorization } = service;
  // Compiles the code, also that of streams.
  await loader.watchEvents({ protocol, url, authorization, streams: 100 });
  await repeat(rounds, () => deploy(service));
  await loader.close();
  const deploymentMs = await repeat(rounds, () => cpuOf(service, () => deploy(service)));
  const heapBefore = await heapOf(service);
  await loader.watchEvents({ protocol, url, authorization, streams });
  const heapKiB = ((await heapOf(service)) - heapBefore) / 1024 / streams;
  const events = await countEvents(service, loader);
  const cost = median(deploymentMs);
  let received = await loader.received();
  return {
    deploymentMs,
    heapKiB,
    async cpuOfEvent() {
      received += events * streams;
      const total = await cpuOf(service, async () => {
        await deploy(service);
        await loader.untilReceived(received);
      });
      return (total - cost) / events;
    },
  };
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
