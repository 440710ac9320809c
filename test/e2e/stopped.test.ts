import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy, readRuntime, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, tab } from "./flow-builders.ts";
import { bearer } from "./rest.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

const hello = endpoint("/hello", `msg.payload = "hello"`);
const failing = [tab("T"), functionNode("f", { z: "T", initialize: `node.error("it can't work")` })];
const undoing = { "service-deployment-wait": "1", "service-deployment-on-failure": "undo" };

async function outcomeOf(service: Service, rev: string): Promise<unknown> {
  return ((await service.send("GET", `/revisions/${rev}`)).json() as { outcome: string }).outcome;
}

test("flows that were stopped do not run after deployments and restarts of the service, until they are started", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "flowgate-e2e-stopped-"));
  try {
    let rev: string;
    {
      await using service = await startService({ dataDir });
      rev = await deploy(service, { flows: hello });
      expect((await service.send("POST", "/runtime:stop")).json()).toEqual({ rev });
      expect(await service.childPids()).toEqual([]);
      expect(await readRuntime(service)).toMatchObject({ state: "stopped", httpPort: 0 });
      expect((await service.send("GET", "/readyz")).status).toBe(200);
      expect(await outcomeOf(service, rev)).toBe("stopped");

      const deployed = await tryDeploy(service, { flows: [...hello, tab("new")], rev }, "nodes", undoing);
      expect(deployed.headers["service-deployment-outcome"]).toBe("stopped");
      ({ rev } = deployed.json() as { rev: string });
      await eventually(async () => expect(await outcomeOf(service, rev)).toBe("stopped"));
      expect(await service.childPids()).toEqual([]);
      const restart = await service.send("POST", "/runtime:restart");
      expect([restart.status, restart.json()]).toMatchObject([400, { code: "flows_stopped" }]);
    }
    await using service = await startService({ dataDir });
    expect((await readRuntime(service)).state).toBe("stopped");
    expect(await service.childPids()).toEqual([]);
    expect((await service.send("POST", "/runtime:start")).json()).toEqual({ rev, outcome: "running" });
    expect(await service.get("/hello")).toBe("hello");
    const [pid] = await service.childPids();
    expect((await service.send("POST", "/runtime:start")).json()).toEqual({ rev, outcome: "running" });
    expect(await service.childPids()).toEqual([pid]);
    expect(await outcomeOf(service, rev)).toBe("running");
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

describe("flows that are stopped", () => {
  let service: Service;
  beforeAll(async () => {
    // Flows run in a new process after each stop.
    service = await startService({ config: { runtime: { freshProcess: "never", safeMode: { exits: 1 } } } });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("undo, restore, merge and reload are committed meanwhile", async () => {
    const first = await deploy(service, { flows: hello });
    const second = await deploy(service, { flows: [...hello, tab("second")] });
    await service.send("POST", "/runtime:stop");
    const merged = await tryDeploy(service, { flows: [...hello, tab("third")], rev: first }, "full", {
      "service-deployment-merge": "true",
    });
    const replies = [
      merged,
      await service.send("POST", "/flows:undo"),
      await service.send("POST", `/revisions/${second}:restore`),
      await tryDeploy(service, { flows: [] }, "reload"),
    ];
    expect(replies.map(({ headers }) => headers["service-deployment-outcome"])).toEqual(replies.map(() => "stopped"));
    const { flows } = (await service.send("GET", "/flows", { headers: { "service-api-version": "v2" } })).json() as {
      flows: { id: string }[];
    };
    expect(flows.map(({ id }) => id)).toContain("second");
    expect(await service.childPids()).toEqual([]);
    expect((await service.send("POST", "/runtime:start")).json()).toMatchObject({ outcome: "running" });
  });

  test("flows that fail when they are started are undone, if that was asked for while they were stopped", async () => {
    const before = await deploy(service, { flows: hello });
    await service.send("POST", "/runtime:stop");
    const deployed = await tryDeploy(service, { flows: failing }, "full", undoing);
    expect(deployed.headers["service-deployment-outcome"]).toBe("stopped");
    const { rev } = deployed.json() as { rev: string };
    expect((await service.send("POST", "/runtime:start")).json()).toMatchObject({ rev, outcome: "degraded" });
    await eventually(async () => {
      const { revisions } = (await service.send("GET", "/revisions?pageSize=2")).json() as { revisions: object[] };
      expect(revisions).toMatchObject([
        { cause: "automatic_undo", restoredRev: before, outcome: "running" },
        { rev, outcome: "undone" },
      ]);
    });
    expect(await service.get("/hello")).toBe("hello");
  });

  test("a deployment that waits ends when the flows are stopped, and a failure that was known remains known", async () => {
    const failed = await deploy(service, { flows: failing });
    await service.send("POST", "/runtime:stop");
    expect(await outcomeOf(service, failed)).toBe("degraded");
    await service.send("POST", "/runtime:start");
    const waiting = tryDeploy(service, { flows: hello }, "full", { "service-deployment-wait": "600" });
    await eventually(async () => expect(await service.get("/hello")).toBe("hello"));
    await service.send("POST", "/runtime:stop");
    expect((await waiting).headers["service-deployment-outcome"]).toBe("stopped");
    await service.send("POST", "/runtime:start");
  });

  /** Of the entries in the audit log, the newest first. */
  async function kinds(): Promise<string[]> {
    const audit = await service.send("GET", "/audit?kind=flows_stopped&kind=flows_started&pageSize=100");
    return (audit.json() as { entries: { kind: string }[] }).entries.map(({ kind }) => kind);
  }

  test("safe mode ends when the flows are stopped, and when they are started, which the audit log has", async () => {
    const before = await kinds();
    // Each file lets the flows crash once.
    const crashing = (name: string) => `const host = util.inspect.constructor("return process")();
      const fs = host.getBuiltinModule("fs");
      if (!fs.existsSync("${name}")) {
        fs.writeFileSync("${name}", "");
        host.getBuiltinModule("timers").setTimeout(() => { throw new Error("once"); });
      }`;
    for (const stops of [[], ["/runtime:stop"]]) {
      await deploy(service, {
        flows: [tab("T"), functionNode("f", { z: "T", initialize: crashing(`crashed-${stops.length}`) })],
      });
      await eventually(async () => expect((await readRuntime(service)).state).toBe("safe"));
      for (const path of stops) {
        await service.send("POST", path);
        expect((await readRuntime(service)).state).toBe("stopped");
      }
      expect((await service.send("POST", "/runtime:start")).json()).toMatchObject({ outcome: "running" });
      expect((await readRuntime(service)).state).toBe("running");
    }
    expect(await kinds()).toEqual(["flows_started", "flows_stopped", "flows_started", ...before]);
  });
});

test("who has stopped and started the flows is in the audit log, and the states are events", async () => {
  await using service = await startService({ config: { adminAuth: { users: [user("admin", "*")] } } });
  const headers = bearer(await login(service, {}));
  for (const path of ["/runtime:stop", "/runtime:stop", "/runtime:start", "/runtime:start"]) {
    expect((await service.send("POST", path, { headers })).status).toBe(200);
  }
  const audit = await service.send("GET", "/audit?kind=flows_stopped&kind=flows_started", { headers });
  const { entries } = audit.json() as { entries: object[] };
  expect(entries).toMatchObject([
    { kind: "flows_started", user: "admin" },
    { kind: "flows_stopped", user: "admin", protocol: "rest" },
  ]);
  await eventually(async () => {
    const listed = await service.send("GET", "/logs?kinds=runtime_state&pageSize=3", { headers });
    const { logs } = listed.json() as { logs: { runtimeState: { state: string } }[] };
    expect(logs.map(({ runtimeState }) => runtimeState.state)).toEqual(["running", "starting", "stopped"]);
  });
});

test("all replicas follow, whichever receives the call, and one that joins", async () => {
  await using database = await createDatabase();
  const config = { store: database.url, credentialSecret: "a secret that all replicas share" };
  await using first = await startService({ config });
  await using second = await startService({ config });
  await eventually(async () => {
    const { replicas } = (await first.send("GET", "/settings")).json() as { replicas: unknown[] };
    expect(replicas).toHaveLength(2);
  });
  const rev = await deploy(first, { flows: hello });
  expect((await second.send("POST", "/runtime:stop")).json()).toEqual({ rev });
  expect([await first.childPids(), await second.childPids()]).toEqual([[], []]);
  const deployed = await tryDeploy(first, { flows: hello }, "full", undoing);
  expect(deployed.headers["service-deployment-outcome"]).toBe("stopped");

  await using third = await startService({ config });
  expect((await readRuntime(third)).state).toBe("stopped");
  const started = await first.send("POST", "/runtime:start");
  expect(started.json()).toMatchObject({ outcome: "running" });
  for (const service of [first, second]) {
    expect(await service.get("/hello")).toBe("hello");
  }
  await eventually(async () => expect(await third.get("/hello")).toBe("hello"));
});

test("in mode one, flows that are stopped stay so when the replica that would run them ends", async () => {
  await using database = await createDatabase();
  const config = {
    store: database.url,
    credentialSecret: "a secret that all replicas share",
    runtime: { mode: "one", leaseMs: 2_000 },
  };
  await using first = await startService({ config });
  await using second = await startService({ config });
  await deploy(first, { flows: hello });
  await second.send("POST", "/runtime:stop");
  // The second one may not have read yet that the first one runs the flows, and then does not wait for it.
  await eventually(async () => expect(await first.childPids()).toEqual([]));
  await first.kill9();
  await eventually(async () => expect((await readRuntime(second)).state).toBe("stopped"));
  expect((await second.send("POST", "/runtime:start")).json()).toMatchObject({ outcome: "running" });
  expect(await second.get("/hello")).toBe("hello");
});
