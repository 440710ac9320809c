import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { createAuthority, issueServer } from "../certificates.ts";
import { openTcpProxy } from "../tcp-proxy.ts";
import { callsAtOnce, type Load, startLoad, streamsAtOnce, type Tally } from "./load.ts";
import { eventually, type Service, startService } from "./service.ts";

/** The number of restarts. RESTARTS=20 takes minutes on two cores. */
const restarts = Number(process.env["RESTARTS"] ?? 2);

type Place = {
  readonly ca?: string;
  readonly start: () => Promise<Service>;
};

const config = {
  // Long enough for the virtual IP to be updated, even on a busy machine.
  drain: { delayMs: 4_000, graceMs: 60_000 },
  // A machine that is busy with other tests would have calls shed.
  limits: { eventLoopDelayMs: 0 },
};
const plain: Place = { start: () => startService({ config }) };

async function withTls(folder: string): Promise<Place> {
  const authority = createAuthority();
  const { cert, key } = issueServer(authority);
  const tls = { certFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };
  await Promise.all([writeFile(tls.certFile, cert), writeFile(tls.keyFile, key)]);
  const ca = authority.cert;
  return { ca, start: () => startService({ config: { ...config, tls }, tls: { ca } }) };
}

/** Resolves when the instance reports that it is draining. */
async function untilLeaving({ url: baseUrl }: Service, { ca }: Place): Promise<void> {
  const transport = createGrpcTransport({ baseUrl, ...(ca && { nodeOptions: { ca } }) });
  const statuses = createClient(Health, transport).watch({});
  for await (const { status } of statuses) {
    if (status === Status.NOT_SERVING) {
      return;
    }
  }
}

/** Stops an instance while another one is ready; resolves with its exit code. */
type End = (old: Service, switchOver: () => void, place: Place) => Promise<number | null>;

/** Like an orchestrator, which removes an instance from the virtual IP when it reports that it is draining. */
const leave: End = async (old, switchOver, place) => {
  const leaving = untilLeaving(old, place).then(switchOver);
  const [code] = await Promise.all([old.stop(), leaving]);
  return code;
};

const crash: End = async (old, switchOver) => {
  await old.kill9();
  switchOver();
  return null;
};

async function underLoad(times: number, end: End, place: Place): Promise<Load["tallies"]> {
  await using services = new AsyncDisposableStack();
  const start = async () => services.use(await place.start());
  let service = await start();
  let next = await start();
  // Like that of kube-proxy.
  await using ip = await openTcpProxy(service.port);
  const load = startLoad(ip.port, place.ca);
  try {
    for (let at = 1; at <= times; at++) {
      await everyoneCalls(load);
      const following = at < times ? start() : Promise.resolve(next);
      const [code, started] = await Promise.all([end(service, () => ip.sendTo(next.port), place), following]);
      expect(code).toBe(end === leave ? 0 : null);
      service = next;
      next = started;
    }
    await everyoneCalls(load);
  } finally {
    await load.stop();
  }
  const made = Object.entries(load.tallies).map(([name, { ok, failed }]) => `${name} ${ok} (${failed.length} failed)`);
  process.stdout.write(`${times} × ${end.name}: ${made.join(", ")}\n`);
  return load.tallies;
}

/** Resolves when each kind of client has made a further successful call. */
async function everyoneCalls({ tallies }: Load): Promise<void> {
  const callers = Object.keys(callsAtOnce).map((name) => tallies[name] as Tally);
  const before = callers.map(({ ok }) => ok);
  await eventually(async () => {
    expect(callers.every(({ ok }, at) => ok > (before[at] ?? 0))).toBe(true);
  });
}

const failures = (tallies: Load["tallies"]) =>
  Object.entries(tallies).flatMap(([name, { failed }]) => failed.map((failure) => `${name}: ${failure}`));

/** The expected end of each watch: NOT_SERVING, then UNAVAILABLE. */
const endedWatches = (tallies: Load["tallies"]): number =>
  Object.keys(streamsAtOnce).reduce((total, name) => total + (tallies[name]?.ok ?? 0), 0);

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

  const timeout = 60_000 + restarts * 30_000;

  test(`lose nothing over ${restarts} rolling restarts`, { timeout }, async () => {
    const tallies = await underLoad(restarts, leave, plain);
    expect(failures(tallies)).toEqual([]);
    expect(endedWatches(tallies)).toBe(20 * restarts);
  });

  test(`lose nothing over ${restarts} rolling restarts with TLS`, { timeout }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "flowgate-rolling-"));
    try {
      const tallies = await underLoad(restarts, leave, await withTls(folder));
      expect(failures(tallies)).toEqual([]);
      expect(endedWatches(tallies)).toBe(20 * restarts);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("lose calls when the instance is killed instead", { timeout }, async () => {
    expect(failures(await underLoad(1, crash, plain)).length).toBeGreaterThan(0);
  });
});
