import { once } from "node:events";
import { connect } from "node:http2";
import { Worker } from "node:worker_threads";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { openService, type Service } from "../service.ts";
import type { Attack, Attackers } from "./slow-client.ts";
import { formatSpread, median, quantile } from "../statistics.ts";

const connections = 200;
const intervalMs = 500;
const calls = 1_000;

export const slowClients: Benchmark = {
  name: "slow-clients",
  title: `p99 of a client's GET /settings beside ${connections} slow connections, against none`,
  async run({ starts, rounds, profileDir }: Effort): Promise<Result> {
    const alone: number[] = [];
    const results = Object.entries(attacks).map(([name, attack]) => ({ name, attack, p99s: new Array<number>() }));
    for (let start = 0; start < starts; start++) {
      await using service = await openService({ profileDir });
      await measure(service);
      for (let round = 0; round < rounds; round++) {
        for (const { attack, p99s } of results) {
          alone.push(await measure(service));
          p99s.push(await measureBeside(service, attack));
        }
      }
    }
    const ratiosOf = (p99s: readonly number[]): number[] => p99s.map((p99) => p99 / median(alone));
    const worst = results.toSorted((one, other) => median(other.p99s) - median(one.p99s))[0];
    const all = [{ name: "no one", p99s: alone }, ...results];
    return {
      figures: [
        {
          title: `p99 beside ${connections} slow connections, of that beside none; the worst kind`,
          unit: "x",
          values: ratiosOf(worst?.p99s ?? []),
          goal: { kind: "atMost", value: 2 },
        },
      ],
      rows: all.map(({ name, p99s }) => ({
        "the others send": name,
        "p99, ms": formatSpread(p99s),
        ratio: formatSpread(ratiosOf(p99s)),
      })),
      chart: [{ title: "p99, ms", bars: all.map(({ name, p99s }) => ({ label: name, values: p99s })) }],
    };
  },
};

const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]);
const http2 = Buffer.concat([Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), settings]);
const ping = Buffer.concat([Buffer.from([0, 0, 8, 6, 0, 0, 0, 0, 0]), Buffer.alloc(8)]);
/** The header of a HEADERS frame of 10,000 bytes without END_HEADERS. */
const incompleteHeaders = Buffer.from([0, 0x27, 0x10, 1, 0, 0, 0, 0, 1]);
const head = (rest: string): Buffer => Buffer.from(`POST /auth/token HTTP/1.1\r\nHost: localhost\r\n${rest}`);

const attacks: Record<string, Attack> = {
  nothing: { first: Buffer.alloc(0), more: Buffer.alloc(0), isAnswered: false },
  "HTTP/2's preface": { first: http2, more: Buffer.alloc(0), isAnswered: true },
  PINGs: { first: http2, more: ping, isAnswered: true },
  "a header byte by byte, HTTP/1": { first: head("X: "), more: Buffer.from("x"), isAnswered: false },
  "a header byte by byte, HTTP/2": {
    first: Buffer.concat([http2, incompleteHeaders]),
    more: Buffer.from([0x82]),
    isAnswered: true,
  },
  "a body byte by byte": {
    first: head("Content-Length: 9999\r\nContent-Type: application/json\r\n\r\n"),
    more: Buffer.from(" "),
    isAnswered: false,
  },
};

async function measureBeside(service: Service, attack: Attack): Promise<number> {
  const workerData: Attackers = { ...attack, port: Number(new URL(service.url).port), connections, intervalMs };
  const worker = new Worker(new URL("slow-client.ts", import.meta.url), { workerData });
  try {
    await once(worker, "message");
    return await measure(service);
  } finally {
    await worker.terminate();
  }
}

/** Resolves with the p99 of sequential calls in ms. */
async function measure({ url, authorization }: Service): Promise<number> {
  const session = connect(url);
  const times: number[] = [];
  for (let call = 0; call < calls; call++) {
    const started = performance.now();
    const stream = session.request({ ":path": "/settings", authorization });
    stream.resume();
    await once(stream, "end");
    times.push(performance.now() - started);
  }
  session.close();
  return quantile(times, 0.99);
}
