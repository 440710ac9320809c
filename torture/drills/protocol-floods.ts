import { setTimeout as delay } from "node:timers/promises";
import { bearer } from "../../test/e2e/rest.ts";
import { isRunning, type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import { tab } from "../../test/e2e/flow-builders.ts";
import type { Context } from "../context.ts";
import type { Drill } from "../drill.ts";
import { fastFloods, flood, floods, harmlessFloods, slowFloods } from "../floods.ts";
import { correct, observe, overTcp } from "../operator.ts";
import { readResources } from "../resources.ts";

export const protocolFloods: Drill = {
  name: "protocol-floods",
  title: "Floods and slow clients on the level of HTTP",
  promise:
    "A client without a token that floods a connection with frames or header fields, or is slow on purpose, loses this connection, or costs no memory and less than calls of the same size; others are served.",
  method:
    "The floods of [floods.ts](../torture/floods.ts), each on connections of its own: first the slow clients together (windows of zero or a byte and windows that run out, " +
    "a slow preface, slow headers and bodies), then the fast ones together (rapid reset, CONTINUATION, PING, SETTINGS, PRIORITY, unknown frames, " +
    "empty DATA, invalid trailers, pipelining, chunk extensions and header fields). The service has to end each of them, while an operator asks for health and settings, and deploys. " +
    "At last WINDOW_UPDATE, padding and headers of too many fields, during which its memory must not grow. " +
    "Limits are the defaults; timeouts are shortened. The control is a service whose timeouts are turned off.",
  async run(context) {
    const { createFolder, pick } = context;
    await using service = await startService({
      ownProcess: true,
      config: { ...config, limits: timeouts },
      dataDir: await createFolder(),
    });
    const way = overTcp(service, bearer(await login(service, { username: "admin" })));
    const observing = await observe(way, pick(40, 10));
    const rounds: Round[] = [];
    for (let round = 0; round < pick(1, 20); round++) {
      context.progress(`round ${round + 1}`);
      // Apart: the fast ones take the places of calls in flight that one client may have, and what is rejected holds nothing.
      for (const { names, withinMs } of kinds) {
        await untilAccepting(service);
        rounds.push(await floodOnce(service, names, pick(1, 4), withinMs));
      }
    }
    await untilAccepting(service);
    const endured = await endure(service, pick(2_000, 20_000));
    const correction = await correct(way, [tab("T")]);
    const observed = await observing.end();
    return {
      loads: [
        { name: "floods", count: rounds.reduce((sum, { count }) => sum + count, 0), minimum: pick(17, 1_000) },
        { name: "calls of the operator", count: observed.calls, minimum: pick(40, 1_000) },
      ],
      figures: [
        { name: "sent", value: rounds.reduce((sum, { bytes }) => sum + bytes, 0) / 2 ** 20, unit: "MiB" },
        {
          name: "longest time until a flood was ended",
          value: Math.max(...rounds.map(({ longestMs }) => longestMs)),
          unit: "ms",
        },
        { name: "growth of memory during the others", value: endured.grownMiB, unit: "MiB" },
        { name: "p99 of health and settings meanwhile", value: observed.p99Ms, unit: "ms" },
      ],
      violations: [
        ...rounds.flatMap(({ violations }) => violations),
        ...endured.violations,
        ...[...observed.failures].map(([failure, count]) => `${failure} (${count} times)`),
        ...(correction.problem === undefined ? [] : [correction.problem]),
        ...((await isRunning(service.pid)) ? [] : ["the service has ended"]),
      ],
      controls: [await withoutLimits(context)],
    };
  },
};

/** Slow ones are ended by timeouts; how soon fast ones are depends on how fast the machine can read them. */
const kinds = [
  { names: slowFloods, withinMs: 15_000 },
  { names: fastFloods, withinMs: 120_000 },
];

const config = { adminAuth: { users: [user("admin", "*")] }, runtime: { mode: "none" }, log: { level: "error" } };
const timeouts = {
  firstByteTimeoutMs: 1_000,
  headersTimeoutMs: 1_000,
  stallTimeoutMs: 1_000,
  anonymousStallTimeoutMs: 1_000,
  // By which other limits would end what theirs does not.
  idleTimeoutMs: 600_000,
  requestTimeoutMs: 600_000,
};

type Round = {
  readonly count: number;
  readonly bytes: number;
  readonly longestMs: number;
  readonly violations: readonly string[];
};

/** Waits until calls of strangers are served again, of which the last floods may have left too many. */
async function untilAccepting(service: Service): Promise<void> {
  while ((await service.send("GET", "/auth/login")).status !== 200) {
    await delay(100);
  }
}

async function floodOnce(
  { port }: Service,
  names: readonly string[],
  connections: number,
  limitMs: number,
): Promise<Round> {
  const all = names.flatMap((name) => Array.from({ length: connections }, () => name));
  const outcomes = await Promise.all(
    all.map(async (name) => {
      const given = floods[name];
      return given && { name, ...(await flood(given, port, limitMs)) };
    }),
  );
  const ended = outcomes.filter((outcome) => outcome !== undefined);
  return {
    count: ended.length,
    bytes: ended.reduce((sum, { bytes }) => sum + bytes, 0),
    longestMs: Math.max(...ended.map(({ endedAfterMs = limitMs }) => endedAfterMs)),
    violations: ended
      .filter(({ endedAfterMs }) => endedAfterMs === undefined)
      .map(({ name, response }) => `${name} was not ended within ${limitMs} ms: ${JSON.stringify(response)}`),
  };
}

/** More than what a busy event loop buffers. */
const maxGrowthMiB = 100;

/** Floods the service with what it does not end. */
async function endure({ port, pid }: Service, forMs: number) {
  const { rssMiB } = await readResources(pid);
  const names = harmlessFloods.flatMap((name) => [name, name]);
  await Promise.all(
    names.map(async (name) => {
      const given = floods[name];
      return given && flood(given, port, forMs);
    }),
  );
  const grownMiB = Math.max(0, (await readResources(pid)).rssMiB - rssMiB);
  return {
    grownMiB,
    violations: grownMiB > maxGrowthMiB ? [`the memory has grown by ${Math.round(grownMiB)} MiB`] : [],
  };
}

/** Floods that only the limits of the service end. */
const limited = [
  "HTTP/2 with a window of zero",
  "HTTP/2 with windows that run out",
  "HTTP/2 with one byte of window at a time",
  "slow headers (slowloris)",
  "a slow body",
];

async function withoutLimits({ createFolder }: Context) {
  const off = {
    headersTimeoutMs: 600_000,
    stallTimeoutMs: 600_000,
    anonymousStallTimeoutMs: 600_000,
    firstByteTimeoutMs: 600_000,
  };
  await using service = await startService({
    ownProcess: true,
    config: { ...config, limits: off },
    dataDir: await createFolder(),
  });
  const { violations } = await floodOnce(service, limited, 1, 1_500);
  return {
    planted: "a service without limits of times",
    found: violations.length === limited.length ? violations : [],
  };
}
