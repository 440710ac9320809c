import { afterAll, beforeAll, expect, test } from "vitest";
import { deploy, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, tab } from "./flow-builders.ts";
import { eventually, type Service, startService } from "./service.ts";
import { type Seen, watch, watchProtocols } from "./watch-events.ts";

// How the flows are is one value, wherever it is shown.

const config = {
  runtime: { freshProcess: "never", restart: { backoffMs: 1, maxBackoffMs: 1 }, safeMode: { exits: 3 } },
};

let service: Service;
beforeAll(async () => {
  service = await startService({ config });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const sse = watchProtocols["SSE"] as (typeof watchProtocols)[string];

const good = endpoint("/works", `msg.payload = "works"`);

type Condition = { readonly kind: string; readonly count: number; readonly nodeId?: string };

async function readHealth() {
  const body = (await service.send("GET", "/runtime")).json() as {
    readonly health: { readonly state: string; readonly conditions: readonly Condition[] };
    readonly restarts: number;
  };
  return { ...body.health, restarts: body.restarts };
}

test("flows that run are healthy", async () => {
  await deploy(service, { flows: good });
  await eventually(async () => expect(await readHealth()).toEqual({ state: "healthy", conditions: [], restarts: 0 }));
});

test("a node that is denied what it needs degrades the flows, which run", async () => {
  const denied = { id: "denied", type: "watch", z: "W", x: 1, y: 1, files: "/etc", recursive: true, wires: [[]] };
  const response = await tryDeploy(service, { flows: [...good, tab("W"), denied] }, "nodes");
  expect(response.headers["service-deployment-outcome"]).toBe("degraded");
  expect(await service.get("/works")).toBe("works");
  expect(await readHealth()).toMatchObject({
    state: "degraded",
    conditions: expect.arrayContaining([
      expect.objectContaining({ kind: "nodes_not_started", message: expect.stringContaining("denied") as string }),
    ]) as Condition[],
  });
});

test("errors of a node end with the node, and both are events", async () => {
  await using events = watch(sse, service.url, { kinds: ["health"] });
  await events.until(({ kind }) => kind === "snapshotEnd");
  const failing = functionNode("failing", { z: "F", func: "node.error('no');" });
  const rev = await deploy(service, { flows: [...good, tab("F"), failing] }, "nodes");
  await service.send("POST", "/runtime/nodes/failing:inject");
  await eventually(async () =>
    expect(await readHealth()).toMatchObject({
      state: "degraded",
      conditions: [{ kind: "nodes_failing", count: 1, nodeId: "failing" }],
    }),
  );
  await events.until(({ event }) => JSON.stringify(event).includes('"failing"'));
  await deploy(service, { flows: good, rev }, "nodes");
  await eventually(async () => expect(await readHealth()).toEqual({ state: "healthy", conditions: [], restarts: 0 }));
  await events.until(() => JSON.stringify(events.seen.at(-1)).includes('"healthy"'));
  const { logs } = (await service.send("GET", "/logs?kinds=health")).json() as { logs: Seen["event"][] };
  expect(logs.slice(0, 2)).toMatchObject([
    { health: { state: "healthy" } },
    { health: { state: "degraded", conditions: [{ kind: "nodes_failing", nodeId: "failing", message: "no" }] } },
  ]);
});

test("exits of the process are counted, degrade the flows that run again, and lead to safe mode", async () => {
  const name = "knows canary-of-a-credential";
  const crashing = functionNode("crashing", { z: "C", name, func: "void Promise.reject(new Error('leak'));" });
  const credentials = { crashing: { token: "canary-of-a-credential" } };
  await deploy(service, { flows: [...good, tab("C"), crashing], credentials }, "nodes");
  const crash = (count: number) =>
    eventually(async () => {
      if ((await readHealth()).restarts < count) {
        await service.send("POST", "/runtime/nodes/crashing:inject");
      }
      const health = await readHealth();
      expect(health.restarts).toBe(count);
      return health;
    });
  await crash(1);
  await eventually(async () =>
    expect(await readHealth()).toMatchObject({
      state: "degraded",
      conditions: [
        { kind: "restarted", reason: "crashed", count: 1, nodeId: "crashing", nodeName: "knows [redacted]" },
        { kind: "nodes_failing", nodeId: "crashing", nodeName: "knows [redacted]" },
      ],
    }),
  );
  expect((await service.send("GET", "/runtime/nodes?failing=true")).json()).toMatchObject({
    nodes: [{ nodeId: "crashing", lastError: { level: "fatal" } }],
  });
  await eventually(async () =>
    expect((await service.send("GET", "/revisions?pageSize=1")).json()).toMatchObject({
      revisions: [{ outcome: "degraded", outcomeMessage: expect.stringContaining("crashed") as string, restarts: 1 }],
    }),
  );
  expect(await service.get("/works")).toBe("works");
  await crash(2);
  await crash(3);
  await eventually(async () =>
    expect(await readHealth()).toMatchObject({
      state: "failed",
      conditions: [
        { kind: "safe_mode" },
        { kind: "restarted", count: 3 },
        { kind: "nodes_failing", nodeId: "crashing" },
      ],
    }),
  );
  await deploy(service, { flows: good }, "nodes");
  await eventually(async () =>
    expect(await readHealth()).toMatchObject({ state: "degraded", conditions: [{ kind: "restarted", count: 3 }] }),
  );
});

test("exits are known after a restart of the service", async () => {
  await service.stop();
  service = await startService({ config, dataDir: service.dataDir });
  await eventually(async () =>
    expect(await readHealth()).toMatchObject({
      state: "degraded",
      conditions: [{ kind: "restarted", count: 3, nodeId: "crashing" }],
    }),
  );
});
