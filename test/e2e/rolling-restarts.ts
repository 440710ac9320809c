import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Health, HealthCheckResponse_ServingStatus as Status } from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { createAuthority, issueServer } from "../certificates.ts";
import { openTcpProxy } from "../tcp-proxy.ts";
import { callsAtOnce, type Load, startLoad, streamsAtOnce, type Tally } from "./load.ts";
import { eventually, type Service, startService } from "./service.ts";

/** How instances are started, and how clients trust them. */
export type Place = { readonly ca?: string; readonly start: () => Promise<Service> };

const config = {
  // Long enough for the virtual IP to be updated, even on a busy machine.
  drain: { delayMs: 4_000, graceMs: 60_000 },
  // A machine that is busy with other tests would have calls shed.
  limits: { eventLoopDelayMs: 0 },
  // Deployments are calls like the others here: a new process for each would leave them little of the CPU.
  runtime: { freshProcess: "never" },
};
export const plain: Place = { start: () => startService({ config }) };

/** Writes the certificates to the folder. */
export async function withTls(folder: string, options: object): Promise<Place> {
  const authority = createAuthority();
  const { cert, key } = issueServer(authority);
  const tls = { certFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };
  await Promise.all([writeFile(tls.certFile, cert), writeFile(tls.keyFile, key)]);
  const ca = authority.cert;
  return { ca, start: () => startService({ config: { ...config, ...options, tls }, tls: { ca } }) };
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

export type Restarts = {
  readonly times: number;
  readonly place: Place;
  readonly latencyMs: number;
  /** Whether an instance is killed afterwards. */
  readonly crashes: boolean;
};

export type Restarted = {
  /** The calls that succeeded. */
  readonly calls: number;
  /** The watches that ended as expected: NOT_SERVING, then UNAVAILABLE. */
  readonly endedWatches: number;
  readonly failures: readonly string[];
  /** Those after an instance was killed. */
  readonly failuresOfCrash: readonly string[];
};

/** How many watches end in order with each restart. */
export const watchesAtOnce = Object.values(streamsAtOnce).reduce((sum, count) => sum + count, 0);

/**
 * Replaces the instance behind a virtual IP this many times, while clients call it: like an orchestrator, which removes an instance from the
 * virtual IP when it reports that it is draining.
 */
export async function restartUnderLoad({ times, place, latencyMs, crashes }: Restarts): Promise<Restarted> {
  await using stack = new AsyncDisposableStack();
  const start = async () => stack.use(await place.start());
  let [service, next] = await Promise.all([start(), start()]);
  // Like that of kube-proxy.
  const ip = stack.use(await openTcpProxy(service.port, latencyMs));
  const load = startLoad(ip.port, place.ca);
  stack.defer(() => load.stop());
  const [instances, switchOver] = [times + (crashes ? 1 : 0), () => ip.sendTo(next.port)];
  for (let at = 1; at <= times; at++) {
    await everyoneCalls(load);
    const leaving = untilLeaving(service, place).then(switchOver);
    const [code, following] = await Promise.all([service.stop(), at < instances ? start() : next, leaving]);
    if (code !== 0) {
      throw new Error(`the instance has exited with ${code}`);
    }
    [service, next] = [next, following];
  }
  await everyoneCalls(load);
  // What is missing is counted.
  await eventually(async () => assert(endedWatches(load) >= times * watchesAtOnce), 30_000).catch(() => {});
  const restarted = { calls: countCalls(load), endedWatches: endedWatches(load), failures: failuresOf(load) };
  if (crashes) {
    await service.kill9();
    switchOver();
    await eventually(async () => assert(failuresOf(load).length > restarted.failures.length), 30_000).catch(() => {});
  }
  return { ...restarted, failuresOfCrash: failuresOf(load).slice(restarted.failures.length) };
}

/** Resolves when each kind of client has made as many further successful calls as it makes at the same time. */
async function everyoneCalls({ tallies }: Load): Promise<void> {
  const callers = Object.entries(callsAtOnce).map(([name, atOnce]) => {
    const tally = tallies[name] as Tally;
    return { tally, until: tally.ok + atOnce };
  });
  await eventually(async () => {
    if (!callers.every(({ tally, until }) => tally.ok >= until)) {
      throw new Error("a kind of client has made too few successful calls");
    }
  });
}

function failuresOf({ tallies }: Load): string[] {
  return Object.entries(tallies).flatMap(([name, { failed }]) => failed.map((failure) => `${name}: ${failure}`));
}

function countCalls({ tallies }: Load): number {
  return Object.values(tallies).reduce((sum, { ok }) => sum + ok, 0);
}

function endedWatches({ tallies }: Load): number {
  return Object.keys(streamsAtOnce).reduce((sum, name) => sum + (tallies[name]?.ok ?? 0), 0);
}
