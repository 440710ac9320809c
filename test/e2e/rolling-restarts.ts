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
export type Place = {
  readonly ca?: string;
  readonly start: () => Promise<Service>;
};

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
export async function withTls(folder: string): Promise<Place> {
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
export type End = (old: Service, switchOver: () => void, place: Place) => Promise<number | null>;

/** Like an orchestrator, which removes an instance from the virtual IP when it reports that it is draining. */
export const leave: End = async (old, switchOver, place) => {
  const leaving = untilLeaving(old, place).then(switchOver);
  const [code] = await Promise.all([old.stop(), leaving]);
  return code;
};

export const crash: End = async (old, switchOver) => {
  await old.kill9();
  switchOver();
  return null;
};

export type Restarts = { readonly times: number; readonly end: End; readonly place: Place; readonly latencyMs: number };

/** Replaces the instance behind a virtual IP this many times, while clients call it. */
export async function restartUnderLoad({ times, end, place, latencyMs }: Restarts): Promise<Load["tallies"]> {
  await using services = new AsyncDisposableStack();
  const start = async () => services.use(await place.start());
  let service = await start();
  let next = await start();
  // Like that of kube-proxy.
  await using ip = await openTcpProxy(service.port, latencyMs);
  const load = startLoad(ip.port, place.ca);
  try {
    for (let at = 1; at <= times; at++) {
      await everyoneCalls(load);
      const following = at < times ? start() : Promise.resolve(next);
      const [code, started] = await Promise.all([end(service, () => ip.sendTo(next.port), place), following]);
      if (code !== (end === leave ? 0 : null)) {
        throw new Error(`the instance has exited with ${code}`);
      }
      service = next;
      next = started;
    }
    await everyoneCalls(load);
  } finally {
    await load.stop();
  }
  return load.tallies;
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

export const failures = (tallies: Load["tallies"]) =>
  Object.entries(tallies).flatMap(([name, { failed }]) => failed.map((failure) => `${name}: ${failure}`));

/** The expected end of each watch: NOT_SERVING, then UNAVAILABLE. */
export const endedWatches = (tallies: Load["tallies"]): number =>
  Object.keys(streamsAtOnce).reduce((total, name) => total + (tallies[name]?.ok ?? 0), 0);
