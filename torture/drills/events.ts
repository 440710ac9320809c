import { writeFile } from "node:fs/promises";
import { connect } from "node:http2";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { tryDeploy } from "../../test/e2e/deploy.ts";
import { debugNode, endpoint, functionNode, type Node, tab } from "../../test/e2e/flow-builders.ts";
import { bearer } from "../../test/e2e/rest.ts";
import { eventually, type Service, startService, withoutRuntime } from "../../test/e2e/service.ts";
import { login, user } from "../../test/e2e/users.ts";
import { watchProtocols } from "../../test/e2e/watch-events.ts";
import { escape } from "../../packages/runtime/test/flow-builders.ts";
import { freePort } from "../../test/free-port.ts";
import type { Context, Size } from "../context.ts";
import type { Control, Drill } from "../drill.ts";
import { checkEvents, numbered, openReader, type Reader, type Reading } from "../event-readers.ts";
import { type Fault, openFaultyProxy } from "../faulty-proxy.ts";
import { observe, overTcp } from "../operator.ts";
import { readResources } from "../resources.ts";

export const events: Drill = {
  name: "events",
  title: "Streams of events during floods and kills",
  promise:
    "Each reader of events gets every deployment once and in order, and no event twice under another id or after a later one, despite disconnects, floods of messages and kills of the runtime or service. What `/logs` has listed survives. Readers that stop reading take bounded memory.",
  method:
    "Clients read `/events` over SSE, NDJSON, Connect, gRPC and gRPC-Web and resume at random, while flows warn, set statuses or send debug messages 100,000 times a second or forge messages to the service, and runtime and service are killed. Received events are compared with each other, with the acknowledged deployments and with the journal.",
  async run(context) {
    const { pick, size } = context;
    const figures = await flood(context);
    const { readers, revs, peakMiB, p99Ms, failures } = figures;
    const count = readers.reduce((sum, { seen }) => sum + seen.length, 0);
    return {
      loads: [
        { name: "deployments", count: revs.length, minimum: deployments[size] * 0.8 },
        { name: "events that were read", count, minimum: pick(200, 20_000) },
        {
          name: "connections of readers",
          count: readers.reduce((sum, { connections }) => sum + connections, 0),
          minimum: pick(20, 500),
        },
        { name: "kills of the flow runtime", count: figures.childKills, minimum: pick(1, 10) },
        { name: "kills of the service", count: figures.kills, minimum: pick(1, 4) },
      ],
      figures: [
        { name: "p99 of health and settings", value: p99Ms, unit: "ms" },
        { name: "highest memory", value: peakMiB, unit: "MiB" },
      ],
      violations: [
        ...checkEvents(readers, revs),
        ...failures,
        ...(size === "full" && p99Ms > maxP99Ms ? [`the p99 of health and settings was ${p99Ms.toFixed(0)} ms`] : []),
        ...(peakMiB > maxMiB ? [`memory was ${peakMiB.toFixed(0)} MiB`] : []),
      ],
      controls: await plantFaults(context, ["loses", "repeats"]),
    };
  },
};

const deployments = { quick: 6, full: 100 } satisfies Record<Size, number>;
const maxP99Ms = 50;
const maxMiB = 400;
const protocols = Object.keys(watchProtocols);

const config = {
  adminAuth: { users: [user("admin", "*")] },
  log: { level: "error" },
  // Streams that are not read stay open for the whole drill.
  limits: { stallTimeoutMs: 3_600_000 },
};

/** Flows that warn a little, with numbers; that warn, set a status or send debug messages very often; and that forge messages on their channel. */
const floods: readonly ((lastMs: number) => Node[])[] = [
  () => [
    onStart(`const run = Date.now() + "-" + Math.random(); let count = 0;
      setInterval(() => { for (let at = 0; at < 4; at++) node.warn("${numbered}" + run + " " + count++); }, 40);`),
  ],
  (lastMs) => [onStart(often(`node.warn("x".repeat(100));`, lastMs))],
  (lastMs) => [
    onStart(
      `${escape} const load = (name) => host.getBuiltinModule(name); const flood = setInterval(() => { for (const kind of ["log", "node-status", "debug", "dropped", "events"])
        try { load("fs").writeSync(3, JSON.stringify({ kind, level: "warn", message: "forged".repeat(100), id: 1, events: [] }) + "\\n"); } catch {} }, 1);
      setTimeout(() => clearInterval(flood), ${lastMs});`,
    ),
  ],
  (lastMs) => [onStart(`let count = 0; ${often(`node.status({ text: "status " + count++ });`, lastMs)}`)],
  (lastMs) => [onStart(often(`node.send({ payload: "x".repeat(100) });`, lastMs), "debug"), debug],
];

/** Code that does something 100,000 times a second, and ends after `lastMs`. */
function often(code: string, lastMs: number): string {
  return `const flood = setInterval(() => { for (let at = 0; at < 1_000; at++) { ${code} } }, 10);
    setTimeout(() => clearInterval(flood), ${lastMs});`;
}

function onStart(initialize: string, to?: string): Node {
  const wires = to === undefined ? [[]] : [[to]];
  return functionNode("writer", { z: "flood", func: "return msg;", initialize, wires });
}

const debug = debugNode("debug", "flood");

/** Longer than the pause before the next deployment, whose new process would take a multiple of its time beside a flood. */
const lastMs = { quick: 500, full: 3_600_000 } satisfies Record<Size, number>;

function flowsOf(number: number, size: Size): Node[] {
  const flood = floods[number % floods.length]?.(lastMs[size]) ?? [];
  return [...endpoint("/n", `msg.payload = "${number}"`), tab("flood"), ...flood];
}

type Flooded = {
  readonly readers: readonly Reader[];
  /** The revisions of acknowledged deployments, in their order. */
  readonly revs: readonly string[];
  readonly childKills: number;
  readonly kills: number;
  readonly peakMiB: number;
  readonly p99Ms: number;
  readonly failures: readonly string[];
};

async function flood(context: Context): Promise<Flooded> {
  const { createFolder, pick, progress, random, size } = context;
  const [port, dataDir] = [await freePort(), await createFolder()];
  const start = (): Promise<Service> => startService({ ownProcess: true, port, config, dataDir });
  let service = await start();
  const headers = bearer(await login(service, { username: "admin" }));
  const ending = new AbortController();
  const readers = Array.from({ length: pick(10, 40) }, (_, at) =>
    openReader({
      ...reading(
        protocols[at % protocols.length] ?? "",
        service.url,
        headers,
        at % 20 === 0 ? undefined : withoutDebug,
      ),
      // Every other one of each protocol.
      leaveAfterMs:
        Math.floor(at / protocols.length) % 2 === 0 ? undefined : () => Math.round(200 + 3_000 * random() ** 3),
      until: ending.signal,
    }),
  );
  await Promise.all(readers.map(({ started }) => started));
  const revs: string[] = [];
  const [peaksMiB, p99sMs, failures]: [number[], number[], string[]] = [[], [], []];
  let [childKills, kills] = [0, 0];
  let [unread, observing] = [
    openUnread(service.url, headers, pick(5, 50)),
    await observe(overTcp(service, headers), pick(40, 10)),
  ];
  const finish = async (): Promise<void> => {
    const { p99Ms, failures: found } = await observing.end();
    p99sMs.push(p99Ms);
    failures.push(...found.keys());
    peaksMiB.push((await readResources(service.pid)).peakMiB);
    unread[Symbol.dispose]();
  };
  for (let number = 0; revs.length < deployments[size] && number < 2 * deployments[size]; number++) {
    progress(`${revs.length} deployments`);
    revs.push(...(await deployNext(service, flowsOf(number, size), headers)));
    await delay(300 * random());
    // The periods have no factor in common with the number of floods, so that each of them is there at a kill.
    if (number % 4 === 1) {
      childKills += await killChild(service);
    }
    if (number % pick(6, 21) === 4) {
      const recorded = await listDeployments(service, headers);
      await finish();
      await service.kill9();
      kills += 1;
      service = await start();
      failures.push(...checkJournal(recorded, await listDeployments(service, headers)));
      [unread, observing] = [
        openUnread(service.url, headers, pick(5, 50)),
        await observe(overTcp(service, headers), pick(40, 10)),
      ];
    }
  }
  revs.push(...(await deployNext(service, [], headers)));
  // What is missing is a violation, which the check describes.
  await eventually(async () => assertSeen(readers, revs.at(-1) ?? ""), 30_000).catch(() => {});
  await finish();
  ending.abort();
  await Promise.all(readers.map(({ ended }) => ended));
  await service[Symbol.asyncDispose]();
  return { readers, revs, childKills, kills, peakMiB: Math.max(...peaksMiB), p99Ms: Math.max(...p99sMs), failures };
}

type Headers = Readonly<Record<string, string>>;

/** A flood of debug messages to all clients would take the CPU time that the service needs for its calls. */
const withoutDebug = ["deployment", "runtime_state", "node_status", "node_error", "log"];

/** Without `kinds`, it asks for all. */
function reading(
  protocol: string,
  url: string,
  headers: Headers,
  kinds: readonly string[] = [],
): Pick<Reading, "protocol" | "open"> {
  const open = watchProtocols[protocol];
  if (open === undefined) {
    throw new Error(`there is no protocol ${protocol}`);
  }
  return {
    protocol,
    open: (after, signal) => open(url, { kinds, ...(after !== undefined && { after }) }, headers, signal),
  };
}

/** Returns the revision, if it was acknowledged. */
async function deployNext(service: Service, flows: readonly Node[], headers: Headers): Promise<string[]> {
  const reply = await tryDeploy(service, { flows }, "full", headers);
  return reply.status === 200 ? [(reply.json() as { rev: string }).rev] : [];
}

/** The ids of the newest 1,000 recorded events about deployments. */
async function listDeployments(service: Service, headers: Headers): Promise<string[]> {
  const reply = await service.send("GET", "/logs?kinds=deployment&pageSize=1000", { headers });
  return (reply.json() as { readonly logs: readonly { readonly id: string }[] }).logs.map(({ id }) => id);
}

/** What was listed before a kill has to be listed after it: a journal that can't be opened is replaced by an empty one. */
function checkJournal(before: readonly string[], after: readonly string[]): string[] {
  const missing = before.filter((id) => !after.includes(id));
  return missing.length === 0
    ? []
    : [`after a kill, ${missing.length} of ${before.length} recorded events are missing`];
}

async function killChild(service: Service): Promise<number> {
  const [child] = await service.childPids();
  if (child === undefined) {
    return 0;
  }
  process.kill(child, "SIGKILL");
  return 1;
}

function assertSeen(readers: readonly Reader[], rev: string): void {
  for (const { protocol, seen } of readers) {
    if (!seen.some(({ kind, event }) => kind === "deployment" && event["rev"] === rev)) {
      throw new Error(`over ${protocol}, the last deployment did not come`);
    }
  }
}

/** Opens streams that are never read. */
function openUnread(url: string, headers: Headers, count: number): Disposable {
  const session = connect(url).on("error", () => {});
  for (let at = 0; at < count; at++) {
    session.request({ ...headers, ":path": "/events" }).on("error", () => {});
  }
  return { [Symbol.dispose]: () => session.destroy() };
}

/** Readers over SSE, each behind a proxy with one of the faults, beside one without; then the journal is damaged. */
async function plantFaults({ createFolder }: Context, faults: readonly Fault[]): Promise<Control[]> {
  // A new process for each of many deployments would take a multiple of their time.
  const runtime = { freshProcess: "never" };
  await using service = await startService({ config: { ...config, runtime }, dataDir: await createFolder() });
  const headers = bearer(await login(service, { username: "admin" }));
  await using stack = new AsyncDisposableStack();
  const ending = new AbortController();
  const openSse = (url: string) => openReader({ ...reading("SSE", url, headers), until: ending.signal });
  const behind = await Promise.all(
    faults.map(async (fault) => ({ fault, reader: openSse(stack.use(await openFaultyProxy(service.url, fault)).url) })),
  );
  const direct = openSse(service.url);
  const readers = [direct, ...behind.map(({ reader }) => reader)];
  await Promise.all(readers.map(({ started }) => started));
  const revs: string[] = [];
  for (let number = 0; number < 12; number++) {
    revs.push(...(await deployNext(service, [tab(`T${number}`)], headers)));
  }
  await eventually(async () => assertSeen(readers, revs.at(-1) ?? ""), 30_000).catch(() => {});
  ending.abort();
  await Promise.all(readers.map(({ ended }) => ended));
  const proxied = behind.map(({ fault, reader }) => ({
    planted: `a proxy ${fault} the events of a deployment`,
    found: checkEvents([direct, reader], revs),
  }));
  return [...proxied, await damagedJournal(service, headers)];
}

/** A journal that can't be opened after a kill. */
async function damagedJournal(service: Service, headers: Headers): Promise<Control> {
  const { dataDir } = service;
  const recorded = await listDeployments(service, headers);
  await service.kill9();
  for (const name of ["journal.db", "journal.db-wal"]) {
    await writeFile(join(dataDir, name), "damaged");
  }
  await using again = await startService({ config: { ...config, ...withoutRuntime }, dataDir });
  return {
    planted: "the journal is overwritten after a kill",
    found: checkJournal(recorded, await listDeployments(again, headers)),
  };
}
