import { setTimeout as delay } from "node:timers/promises";
import { tryDeploy } from "../../test/e2e/deploy.ts";
import { functionNode, type Node, tab } from "../../test/e2e/flow-builders.ts";
import { type HttpClient, createStreamReader } from "../../test/e2e/http-client.ts";
import type { Proxy, ProxyOptions } from "../../test/e2e/proxy.ts";
import { bearer } from "../../test/e2e/rest.ts";
import { eventually, type Service, startService } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import { parseEvents } from "../../test/e2e/watch-events.ts";
import type { Context, Size } from "../context.ts";
import type { Control, Load } from "../drill.ts";
import { openReader } from "../event-readers.ts";
import { type Fault, openFaultyProxy } from "../faulty-proxy.ts";
import { observe, overTcp } from "../operator.ts";
import { readResources } from "../resources.ts";
import { assertOutcome, checkDeliveries, countTold, type Received } from "./check-deliveries.ts";
import type { ClientGroup, ClientOptions } from "./client-process.ts";
import { openClients } from "./clients.ts";

/** How the clients reach the service; undefined: directly. */
export type Way = ((options: ProxyOptions) => Promise<Proxy>) | undefined;

export type FanOut = {
  /** Acknowledged deployments. */
  readonly deployments: number;
  /** Events about deployments that all clients have received. */
  readonly deliveries: number;
  /** Connections after the first one of each client. */
  readonly resumes: number;
  /** Clients that stopped reading and were disconnected, or were told how many events about deployments they have missed. */
  readonly cutOff: number;
  readonly peakMiB: number;
  /** Of health and settings. */
  readonly p99Ms: number;
  /** The share of those that were rejected, or not answered within 10 s. */
  readonly unanswered: number;
  readonly violations: readonly string[];
  readonly controls: readonly Control[];
};

export const sizes = {
  quick: { deployments: 15, streams: 60, stopped: 5, leaveWithin: 20, maxMiB: 400 },
  full: { deployments: 100, streams: 1_000, stopped: 40, leaveWithin: 60, maxMiB: 600 },
} as const satisfies Record<Size, object>;

/** With the versions of HTTP that its clients use. */
const protocols: Readonly<Record<string, readonly HttpClient["httpVersion"][]>> = {
  gRPC: ["2"],
  Connect: ["2"],
  "gRPC-Web": ["1.1"],
  SSE: ["1.1", "2"],
};
const groupCount = Object.values(protocols).flat().length;

const faults = { loses: "a gap", repeats: "duplicates", swaps: "another order" } as const satisfies Record<
  Fault,
  string
>;

const config = {
  adminAuth: { users: [user("admin", "*")] },
  // Each new runtime process takes more time than all deliveries of a deployment.
  runtime: { freshProcess: "never" },
  trustedProxies: ["127.0.0.1"],
  // All clients have the same address.
  limits: { inFlight: 2_000, inFlightPerSource: 0, stallTimeoutMs: 3_000 },
  log: { level: "error" },
};

/** Sends deployments to clients of all protocols, and checks what each of them has received. */
export async function fanOut({ size, pick, random, progress, createFolder }: Context, way: Way): Promise<FanOut> {
  const { deployments, maxMiB } = sizes[size];
  await using stack = new AsyncDisposableStack();
  const service = stack.use(await startService({ ownProcess: true, config, dataDir: await createFolder() }));
  const headers = bearer(await login(service, { username: "admin" }));
  const proxy = way && stack.use(await way({ upstreams: [service.port] }));
  const faulty = await Promise.all(
    (Object.keys(faults) as Fault[]).map(async (fault) => stack.use(await openBehindFault(service, fault, headers))),
  );
  /** Of each protocol. */
  const groupsOf = (count: number): ClientGroup[][] =>
    Object.entries(protocols).map(([protocol, versions]) =>
      versions.map((version) => ({
        protocol,
        httpClient: clientOf(service, proxy, version),
        streams: count / groupCount,
      })),
    );
  const { streams, stopped, leaveWithin } = sizes[size];
  const open = (options: Pick<ClientOptions, "groups" | "kinds" | "streamsPerConnection" | "leaveWithin">) =>
    stack.use(openClients({ ...options, headers, seed: Math.floor(2 ** 31 * random()) }));
  const byProtocol = groupsOf(streams);
  // Few clients share a process, whose start takes longer than what they do.
  const reading = pick([byProtocol.flat()], byProtocol).map((groups) =>
    open({ groups, kinds: ["deployment"], streamsPerConnection: 10, leaveWithin }),
  );
  // Those that stop would block others on the same connection.
  const stopping = open({
    groups: groupsOf(stopped).flat(),
    kinds: [],
    streamsPerConnection: 1,
    leaveWithin: undefined,
  });
  const clients = [...reading, stopping];
  progress("clients connect");
  await Promise.all(clients.map(({ started }) => started));
  stopping.stop();
  const observing = await observe(overTcp(service, headers), pick(40, 10));
  const revs: string[] = [];
  for (let number = 0; revs.length < deployments && number < 2 * deployments; number++) {
    progress(`${revs.length} deployments`);
    const reply = await tryDeploy(service, { flows: flowsOf(number) }, "full", headers);
    revs.push(...(reply.status === 200 ? [(reply.json() as { rev: string }).rev] : []));
    await delay(300 * random());
  }
  progress("clients read the rest");
  const received = (await Promise.all(clients.map((each) => each.finish(revs.at(-1) ?? "")))).flat();
  const [{ calls, p99Ms, failures }, { peakMiB }] = [await observing.end(), await readResources(service.pid)];
  return {
    deployments: revs.length,
    deliveries: received.reduce((sum, { seen }) => sum + seen.filter(({ kind }) => kind === "deployment").length, 0),
    resumes: received.reduce((sum, { connections }) => sum + connections - 1, 0),
    cutOff: received.filter(
      ({ hasStopped, connections, seen }) => hasStopped && (connections > 1 || countTold(seen) !== 0),
    ).length,
    peakMiB,
    p99Ms,
    unanswered: failures.values().reduce((sum, count) => sum + count, 0) / calls,
    violations: [
      ...checkDeliveries(received, revs),
      ...(peakMiB > maxMiB ? [`memory was ${peakMiB.toFixed(0)} MiB`] : []),
    ],
    controls: await Promise.all(faulty.map((each) => each.check(received.slice(0, 1), revs))),
  };
}

function clientOf(service: Service, proxy: Proxy | undefined, httpVersion: HttpClient["httpVersion"]): HttpClient {
  const own: HttpClient = { name: "direct", url: service.url, httpVersion };
  return proxy?.httpClients.find((each) => each.httpVersion === httpVersion) ?? own;
}

/** Each starts with large warnings that can't be compressed well, so that the streams of clients that stop are soon full. */
function flowsOf(number: number): Node[] {
  const initialize = `for (let at = 0; at < 100; at++) {
    node.warn("${number} " + at + Array.from({ length: 1_400 }, () => Math.random().toString(36).slice(2)).join(""));
  }`;
  return [tab("T"), functionNode("writer", { z: "T", func: "return msg;", initialize })];
}

type BehindFault = AsyncDisposable & {
  /** Checks what the client behind the fault has received, and others without one. */
  check(others: readonly Received[], revs: readonly string[]): Promise<Control>;
};

/** A client over SSE whose proxy is faulty. */
async function openBehindFault(
  service: Service,
  fault: Fault,
  headers: Readonly<Record<string, string>>,
): Promise<BehindFault> {
  const proxy = await openFaultyProxy(service.url, fault);
  const ending = new AbortController();
  const read = createStreamReader({ name: "faulty", url: proxy.url, httpVersion: "1.1" });
  const { seen, started, ended } = openReader({
    protocol: "SSE",
    open: (_after, signal) =>
      parseEvents(read("/events?kinds=deployment", { ...headers, accept: "text/event-stream" }, signal)),
    until: ending.signal,
  });
  await started;
  return {
    async check(others, revs) {
      // What is missing is found by the check.
      await eventually(async () => assertOutcome(seen, revs.at(-1) ?? ""), 30_000).catch(() => {});
      const client = "the client behind the proxy";
      const found = checkDeliveries([...others, { client, seen, connections: 1, hasStopped: false }], revs);
      return { planted: `${faults[fault]} in one stream`, found: found.filter((each) => each.startsWith(client)) };
    },
    async [Symbol.asyncDispose]() {
      ending.abort();
      await ended;
      await proxy[Symbol.asyncDispose]();
    },
  };
}

export function loadsOf({ pick, size }: Context, { deployments, deliveries, resumes }: FanOut): Load[] {
  const minimum = sizes[size].deployments * 0.8;
  return [
    { name: "deployments", count: deployments, minimum },
    // Each deployment has at least two events.
    { name: "events that were received", count: deliveries, minimum: 2 * minimum * sizes[size].streams },
    { name: "streams that were resumed", count: resumes, minimum: pick(40, 2_000) },
  ];
}
