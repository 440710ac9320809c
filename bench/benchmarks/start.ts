import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { openFolder } from "../server.ts";
import { builtProgram, sourceProgram } from "../service.ts";
import { measureStart } from "../start-up.ts";
import { formatSpread } from "../statistics.ts";

type Starts = { readonly seconds: number[]; readonly mebibytes: number[] };

type Contender = {
  readonly name: string;
  readonly entry: URL;
  /** With an empty data directory: without V8's compile cache, and with a new store. */
  readonly first: Starts;
  readonly later: Starts;
};

export const start: Benchmark = {
  name: "start",
  title: "From the start of the process until it is ready and the flow runtime runs; its memory at rest",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const built = contender("built", await builtProgram());
    const source = contender("from source", sourceProgram);
    // Omits the first round, which fills the caches of the file system.
    for (let round = 0; round <= Math.max(starts, rounds); round++) {
      for (const { entry, first, later } of [built, source]) {
        await using dir = await openFolder();
        for (const measured of [first, later]) {
          const { seconds, mebibytes } = await measureStart(entry, dir.path);
          if (round > 0) {
            measured.seconds.push(seconds);
            measured.mebibytes.push(mebibytes);
          }
        }
      }
    }
    return {
      figures: [
        {
          title: "start to ready with the runtime, built",
          unit: "s",
          values: built.later.seconds,
          goal: { kind: "atMost", value: 0.8 },
        },
        { title: "… from source", unit: "s", values: source.later.seconds, goal: { kind: "atMost", value: 0.8 } },
        {
          title: "API process at rest, built",
          unit: "MiB",
          values: built.later.mebibytes,
          goal: { kind: "atMost", value: 90 },
        },
        { title: "… from source", unit: "MiB", values: source.later.mebibytes, goal: { kind: "atMost", value: 90 } },
      ],
      rows: [built, source].flatMap(({ name, first, later }) =>
        [
          { name: `${name}, first start`, starts: first },
          { name, starts: later },
        ].map(({ name, starts: { seconds, mebibytes } }) => ({
          "": name,
          "start to ready, s": formatSpread(seconds),
          "memory of the API process at rest, MiB": formatSpread(mebibytes),
        })),
      ),
      chart: [
        {
          title: "start to ready, s",
          bars: [built, source].map(({ name, later }) => ({ label: name, values: later.seconds })),
        },
        {
          title: "resident memory at rest, MiB",
          bars: [built, source].map(({ name, later }) => ({ label: name, values: later.mebibytes })),
        },
      ],
    };
  },
};

function contender(name: string, entry: URL): Contender {
  return { name, entry, first: { seconds: [], mebibytes: [] }, later: { seconds: [], mebibytes: [] } };
}
