import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { block } from "../../packages/runtime/test/flow-builders.ts";
import { deploy, readRuntime, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, installReporter, type Node, tab, reporter } from "./flow-builders.ts";
import { v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { eventually, isRunning, type Service, startService, withoutRuntime } from "./service.ts";

async function activeRev(service: Service): Promise<string> {
  return ((await service.send("GET", "/flows", { headers: v2 })).json() as { rev: string }).rev;
}

type Racer = { flow: string; won?: string | undefined; lost?: string | undefined };

/** A machine that is busy with other tests is no overload here. */
const limits = { eventLoopDelayMs: 0 };

describe("deployments at the same time", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ config: { limits, runtime: { freshProcess: "never" } } });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("exactly one of 64 deployments that race on a revision wins, over all protocols", async () => {
    const rev = await activeRev(service);
    const racers = Array.from({ length: 64 }, async (_, index): Promise<Racer> => {
      const flow = `flow of ${index}`;
      const protocol = rpcProtocolNames[index % 8];
      if (protocol === undefined) {
        const reply = await tryDeploy(service, { flows: [tab(flow)], rev });
        const { rev: won, code } = reply.json() as { rev?: string; code?: string };
        return { flow, won, lost: reply.status === 409 ? code : undefined };
      }
      const outcome = await call(rpcProtocols[protocol](service.url), FlowsService.method.setFlows, {
        flows: [{ id: flow, type: "tab" }],
        rev,
      });
      return "refused" in outcome
        ? { flow, lost: outcome.refused.code === Code.Aborted ? outcome.refused.reason : undefined }
        : { flow, won: outcome.message.rev };
    });
    const all = await Promise.all(racers);
    const winners = all.filter(({ won }) => won !== undefined);
    expect(winners).toHaveLength(1);
    expect(all.filter(({ lost }) => lost === "version_mismatch")).toHaveLength(63);
    const active = (await service.send("GET", "/flows", { headers: v2 })).json();
    expect(active).toMatchObject({ rev: winners[0]?.won, flows: [{ id: winners[0]?.flow }] });
  });

  test("forced deployments that race are all accepted, and the runtime runs the last of them", async () => {
    const revs = await Promise.all(
      Array.from({ length: 16 }, (_, index) => deploy(service, { flows: endpoint("/n", `msg.payload = "${index}"`) })),
    );
    expect(new Set(revs).size).toBe(16);
    const index = revs.indexOf(await activeRev(service));
    expect(await service.get("/n")).toBe(String(index));
  });
});

test("acknowledged flows and credentials survive kill -9, and run", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-e2e-durable-"));
  const numbered = (n: number): Node[] => [
    ...endpoint("/n", `msg.payload = "${n}"`),
    tab("T"),
    reporter("a", "T", { n }),
  ];
  try {
    await installReporter(dataDir);
    await using stack = new AsyncDisposableStack();
    const start = async () => stack.use(await startService({ dataDir, config: { limits } }));
    let service = await start();
    let n = 0;
    for (const deployments of [1, 7]) {
      const acknowledged = new Map<string, number>();
      const killed = Promise.withResolvers<void>();
      for (let dead = false; !dead;) {
        n += 1;
        const attempt = deploy(
          service,
          { flows: numbered(n), credentials: { a: { password: `secret ${n}` } } },
          "nodes",
        );
        const rev = await attempt.catch(() => undefined);
        if (rev === undefined) {
          dead = true;
        } else {
          acknowledged.set(rev, n);
        }
        if (acknowledged.size === deployments) {
          // Runs concurrently with the next deployment of the loop.
          void service.kill9().then(killed.resolve);
        }
      }
      await killed.promise;
      service = await start();
      const newest = Math.max(...acknowledged.values());
      const active = Number(await service.get("/n"));
      // The deployment in flight may be committed or not, but not partially.
      expect([newest, newest + 1]).toContain(active);
      const known = acknowledged.get(await activeRev(service));
      expect(known ?? newest + 1).toBe(active);
      expect((await service.send("GET", "/flows")).json()).toEqual(numbered(active));
      expect(JSON.parse(await service.get("/reporter"))).toMatchObject({
        credentials: { "the a": { password: `secret ${active}` } },
      });
      n = active;
    }
    expect(await service.stop()).toBe(0);
  } finally {
    await rm(dataDir, { recursive: true });
  }
});

/** Resolves once a flow blocks the runtime, so that it does not respond. */
async function untilBlocked(service: Service): Promise<void> {
  const { httpPort } = await readRuntime(service);
  await eventually(async () => {
    const response = fetch(`http://127.0.0.1:${httpPort}/`, { signal: AbortSignal.timeout(300) });
    const outcome = await response.then(
      () => "answered",
      (error: unknown) => (error instanceof Error ? error.name : "failed"),
    );
    expect(outcome).toBe("TimeoutError");
  });
}

describe.runIf(process.platform === "linux")("the runtime's process", () => {
  test("exits after SIGTERM to the service while it is blocked by a message", async () => {
    await using service = await startService({ config: { runtime: { freshProcess: "never", deadlineMs: 5000 } } });
    await deploy(service, { flows: endpoint("/loop", block) });
    service.get("/loop").catch(() => "");
    await untilBlocked(service);
    const pids = await service.childPids();
    expect(pids).toHaveLength(1);
    expect(await service.stop()).toBe(0);
    expect(await Promise.all(pids.map(isRunning))).toEqual(pids.map(() => false));
  });

  const slow = (initialize: string) => [tab("T"), functionNode("f", { z: "T", initialize })];

  test.each([
    ["that takes a while", "await new Promise((resolve) => setTimeout(resolve, 1500));"],
    ["that hangs", block],
  ])("SIGTERM while a deployment %s is in flight: it is answered, and all ends in order", async (_name, initialize) => {
    await using service = await startService();
    const pids = await service.childPids();
    const reply = tryDeploy(service, { flows: slow(initialize) }).then(
      ({ status }) => status,
      (error: unknown) => String(error),
    );
    await eventually(async () => expect((await service.send("GET", "/flows")).json()).toHaveLength(2));
    const code = await service.stop();
    expect([await reply, code]).toEqual([200, 0]);
    expect(await Promise.all(pids.map(isRunning))).toEqual(pids.map(() => false));
    expect(service.log()).not.toMatch(/"level":"(?:error|fatal)"/);
  });
});

test("SIGTERM under load: acknowledged deployments are committed, and others are not", async () => {
  await using service = await startService({ config: { limits, runtime: { freshProcess: "never" } } });
  let stopping = false;
  const outcomes = new Map<string, string>();
  const clients = Array.from({ length: 8 }, async (_, index) => {
    for (let n = 0, done = false; !done; n += 1) {
      const id = `${index} ${n}`;
      const request = index % 2 === 0 ? tryDeploy(service, { flows: [tab(id)] }) : service.send("GET", "/flows");
      const outcome = await request.then(
        ({ status }) => String(status),
        (error: NodeJS.ErrnoException) => error.code ?? error.message,
      );
      outcomes.set(id, outcome);
      done = stopping && outcome !== "200";
    }
  });
  await eventually(async () => expect(outcomes.size).toBeGreaterThan(50));
  stopping = true;
  expect(await service.stop()).toBe(0);
  await Promise.all(clients);
  // A connection that was not accepted yet, or had not sent its request, may be reset.
  expect(["200", "ECONNREFUSED", "ECONNRESET"]).toEqual(expect.arrayContaining([...new Set(outcomes.values())]));
  await using again = await startService({ dataDir: service.dataDir, config: withoutRuntime });
  const [active] = (await again.send("GET", "/flows")).json() as { id: string }[];
  expect(outcomes.get(active?.id ?? "")).toBe("200");
});
