import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { endpoint, functionNode, installReporter, reporter, tab } from "../e2e/flow-builders.ts";
import { tryDeploy } from "../e2e/deploy.ts";
import type { FlowNode } from "@flowgate/flows";
import { documentOf } from "../../packages/flows/test/builders.ts";
import { draft } from "../store/builders.ts";
import { eventually } from "../e2e/service.ts";
import { type ReplicaUnderTest, type Replicas, openReplicas } from "./gateways.ts";

type Settings = {
  readonly runtime: { readonly state: string; readonly httpPort: number };
  readonly replicas: readonly Record<string, unknown>[];
};

async function readSettings(replica: ReplicaUnderTest): Promise<Settings> {
  return (await replica.send("GET", "/settings")).json() as Settings;
}

/** What the HTTP-in node of the flows of a replica responds with. */
async function hello(replica: ReplicaUnderTest): Promise<string> {
  const { httpPort } = replica.runtimeStatus();
  return (await fetch(`http://127.0.0.1:${httpPort}/hello`)).text();
}

async function deployOutcome(
  replica: ReplicaUnderTest,
  flows: Parameters<typeof tryDeploy>[1]["flows"],
  headers: Readonly<Record<string, string>> = {},
): Promise<{ outcome: unknown; rev: string }> {
  const reply = await tryDeploy(replica, { flows }, "full", headers);
  return { outcome: reply.headers["service-deployment-outcome"], rev: (reply.json() as { rev: string }).rev };
}

const undo = { "service-deployment-wait": "1", "service-deployment-on-failure": "undo" };
const nameOf = (replica: ReplicaUnderTest) => expect.stringMatching(new RegExp(`:${new URL(replica.url).port}$`));

describe("two replicas that run flows and one that does not", () => {
  let replicas: Replicas<"plain" | "equipped" | "api">;
  beforeAll(async () => {
    replicas = await openReplicas({
      plain: { runtime: { freshProcess: "never" } },
      // The only one that has a node type.
      equipped: { runtime: { freshProcess: "never" }, prepare: installReporter },
      api: { runtime: { mode: "none" } },
    });
  });
  afterAll(() => replicas[Symbol.asyncDispose]());

  const needsReporter = [tab("T"), reporter("r", "T")];

  test.each(["plain", "api"] as const)("a deployment at %s is answered when all run it", async (name) => {
    const { outcome } = await deployOutcome(replicas[name], endpoint("/hello", `msg.payload = "of ${name}"`));
    expect(outcome).toBe("running");
    expect([await hello(replicas.plain), await hello(replicas.equipped)]).toEqual([`of ${name}`, `of ${name}`]);
  });

  test("settings and metrics show all replicas", async () => {
    const { plain, equipped, api } = replicas;
    const { outcome, rev } = await deployOutcome(plain, endpoint("/hello", "msg.payload = 1"));
    expect(outcome).toBe("running");
    const { runtime, replicas: listed } = await readSettings(api);
    expect(runtime).toMatchObject({ state: "disabled", httpPort: 0 });
    const expected = [
      { name: nameOf(plain), mode: "each", state: "running", rev, outcome: "running", self: false },
      { name: nameOf(equipped), mode: "each", state: "running", rev, outcome: "running", self: false },
      { name: nameOf(api), mode: "none", state: "disabled", self: true },
    ];
    expect(listed).toHaveLength(3);
    for (const replica of expected) {
      expect(listed).toContainEqual(expect.objectContaining(replica));
    }
    const metrics = (await api.send("GET", "/metrics")).body;
    expect(metrics).toMatch(/^flowgate_replicas\{state="running"\} 2$/m);
    expect(metrics).toMatch(/^flowgate_replicas\{state="disabled"\} 1$/m);
    expect(metrics).toMatch(/^flowgate_runtime_state\{state="disabled"\} 1$/m);
  });

  test.each(["plain", "equipped", "api"] as const)(
    "a deployment at %s that fails on one replica has failed",
    async (name) => {
      const { outcome, rev } = await deployOutcome(replicas[name], needsReporter);
      expect(outcome).toBe("failed");
      const port = new URL(replicas.plain.url).port;
      await eventually(async () => {
        const entry = (await replicas[name].send("GET", `/revisions/${rev}`)).json();
        expect(entry).toMatchObject({
          outcome: "failed",
          outcomeMessage: expect.stringMatching(new RegExp(`:${port}: missing node types: reporter$`)),
        });
      });
    },
  );

  test.each(["plain", "equipped", "api"] as const)(
    "a deployment at %s that fails on one replica is undone once",
    async (name) => {
      const before = await deployOutcome(replicas[name], endpoint("/hello", `msg.payload = "before"`), undo);
      expect(before.outcome).toBe("running");
      const { outcome, rev } = await deployOutcome(replicas[name], needsReporter, undo);
      expect(outcome).toBe("undone");
      const { revisions } = (await replicas[name].send("GET", "/revisions?pageSize=3")).json() as {
        revisions: { rev: string; cause: string; restoredRev?: string }[];
      };
      expect(revisions).toMatchObject([
        { rev, cause: "automatic_undo", restoredRev: before.rev },
        { cause: "deployment" },
        { rev: before.rev },
      ]);
      await eventually(async () =>
        expect([await hello(replicas.plain), await hello(replicas.equipped)]).toEqual(["before", "before"]),
      );
    },
  );

  test.each(["plain", "api"] as const)("errors of nodes on another replica undo a deployment at %s", async (name) => {
    const { plain, equipped } = replicas;
    const marking = endpoint("/mark", `global.set("marked", true); msg.payload = "marked"`);
    const before = await deployOutcome(plain, marking);
    await fetch(`http://127.0.0.1:${equipped.runtimeStatus().httpPort}/mark`);
    const initialize = `setTimeout(() => global.get("marked") && node.error("only here"), 50)`;
    const reply = await tryDeploy(
      replicas[name],
      { flows: [...marking, tab("T"), functionNode("e", { z: "T", initialize })] },
      "nodes",
      // It ends with the error, which takes long on a busy machine.
      { ...undo, "service-deployment-wait": "60" },
    );
    expect(reply.headers["service-deployment-outcome"]).toBe("undone");
    const { port } = new URL(equipped.url);
    const outcomeMessage = expect.stringMatching(
      new RegExp(`:${port}: nodes logged 1 error \\(max_errors: 0\\), first function e in ".+": "only here"$`),
    );
    for (const replica of [plain, equipped]) {
      const { revisions } = (await replica.send("GET", "/revisions?pageSize=2")).json() as { revisions: object[] };
      expect(revisions).toMatchObject([
        { cause: "automatic_undo", restoredRev: before.rev },
        { outcome: "undone", outcomeMessage },
      ]);
    }
  });

  test("a failure on a replica undoes the deployment of another one that has ended", async () => {
    const { rev: before } = await replicas.readActive();
    const flows = documentOf(needsReporter as readonly FlowNode[]);
    const { rev } = await replicas.commitElsewhere(
      draft(before, { flows, credentials: new Map(), probationMs: 60_000 }),
    );
    await eventually(async () =>
      expect(await replicas.readActive()).toMatchObject({ parent: rev, cause: "automatic_undo", restoredRev: before }),
    );
  });
});

test("in mode one, flows that need a node type are run by the replica that has it, and are not undone", async () => {
  await using replicas = await openReplicas({
    plain: { runtime: { mode: "one" } },
    equipped: { runtime: { mode: "one" }, prepare: installReporter },
  });
  const { plain, equipped } = replicas;
  expect([plain.runtimeStatus().state, equipped.runtimeStatus().state]).toEqual(["running", "standby"]);
  const { outcome, rev } = await deployOutcome(plain, [tab("T"), reporter("r", "T")], undo);
  expect(outcome).toBe("running");
  expect([plain.runtimeStatus().state, equipped.runtimeStatus().state]).toEqual(["standby", "running"]);
  expect((await replicas.readActive()).rev).toBe(rev);
});

test("in mode one, one replica runs the flows, and another one takes over when it stops", async () => {
  await using replicas = await openReplicas({
    first: { runtime: { mode: "one", leaseMs: 3_000 } },
    second: { runtime: { mode: "one", leaseMs: 3_000 } },
  });
  const { first, second } = replicas;
  expect([first.runtimeStatus().state, second.runtimeStatus().state]).toEqual(["running", "standby"]);
  const flows = endpoint("/hello", `msg.payload = env.get("FLOWGATE_FENCING_TOKEN")`);
  expect((await deployOutcome(second, flows)).outcome).toBe("running");
  const token = Number(await hello(first));

  await first.drain();
  await eventually(async () => expect(second.runtimeStatus().state).toBe("running"));
  expect(Number(await hello(second))).toBeGreaterThan(token);
});
