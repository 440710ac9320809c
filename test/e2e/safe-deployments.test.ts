import { randomUUID } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { DeploymentOutcome, FlowsService, type NodeSchema, OnFailure } from "../../gen/flowgate/v1/flows_pb.ts";
import { block } from "../../packages/runtime/test/flow-builders.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { counting, endpoint, functionNode, type Node, startsEndpoint, tab } from "./flow-builders.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, startService, withoutRuntime } from "./service.ts";
import { type Json, useOperators } from "./operators.ts";

const secret = "canary-of-a-credential";
const { tokens, running, send, deployAs, activeFlows, revision, newest, verdicts } = useOperators();

describe("a safe deployment", () => {
  const undoing = (seconds: number) => ({
    "service-deployment-on-failure": "undo",
    "service-deployment-wait": String(seconds),
  });
  const failing: [name: string, nodes: Node[]][] = [
    ["lacks a node type", [{ id: "m", type: "not-installed", z: "F", x: 1, y: 1 }]],
    ["logs an error", [functionNode("e", { z: "F", initialize: "throw new Error('start')" })]],
    [
      "crashes",
      [functionNode("c", { z: "F", initialize: "setTimeout(() => void Promise.reject(new Error('late')), 50)" })],
    ],
    ["hangs", [functionNode("h", { z: "F", initialize: block })]],
  ];

  test.each(failing)("that %s is undone, and the previous flows respond again", async (_, nodes) => {
    const good = await deployAs("ada", endpoint("/alive", "msg.payload = 'yes'"));
    const reply = await tryDeploy(running(), { flows: [tab("F"), ...nodes] }, "full", {
      ...tokens["bob"],
      ...undoing(3),
    });
    expect(reply.status).toBe(200);
    expect(reply.headers["service-deployment-outcome"]).toBe("undone");
    const failed = String(reply.headers["service-deployment-undone-rev"]);
    const { rev } = reply.json() as { rev: string };
    expect(await running().get("/alive", tokens["ada"])).toBe("yes");
    expect(await revision(rev)).toMatchObject({
      active: true,
      cause: "automatic_undo",
      restoredRev: good,
      user: "bob",
    });
    expect(await revision(failed)).toMatchObject({ outcome: "undone", parent: good });
    expect((await send("POST", "/flows:undo")).json()).toMatchObject({ code: "nothing_to_undo" });
  });

  test("that only restarts changed nodes is undone in the same way", async () => {
    const kept = [...startsEndpoint, tab("T"), counting("kept", "T")];
    await deployAs("ada", kept);
    const starts = async () => JSON.parse(await running().get("/starts", tokens["ada"])) as Record<string, number>;
    const before = await starts();
    const failing = functionNode("e", { z: "T", initialize: "throw new Error('start')" });
    const reply = await tryDeploy(running(), { flows: [...kept, failing] }, "nodes", {
      ...tokens["ada"],
      ...undoing(3),
    });
    expect(reply.headers["service-deployment-outcome"]).toBe("undone");
    expect(await newest()).toMatchObject({ cause: "automatic_undo", deploymentType: "nodes", outcome: "running" });
    expect(await starts()).toEqual(before);
  });

  test("is undone without waiting if it can't be started", async () => {
    await deployAs("ada", [tab("good")]);
    const reply = await tryDeploy(running(), { flows: [{ id: "m", type: "not-installed" }] }, "full", {
      ...tokens["ada"],
      ...undoing(0),
    });
    expect(reply.headers["service-deployment-outcome"]).toBe("undone");
  });

  test("keeps what flows throw out of the history", async () => {
    const crash = functionNode("c", { z: "F", initialize: `void Promise.reject(new Error("${secret}"));` });
    await deployAs("ada", [tab("good")]);
    await tryDeploy(running(), { flows: [tab("F"), crash] }, "full", { ...tokens["ada"], ...undoing(3) });
    const { body } = await send("GET", "/revisions?pageSize=2");
    expect(body).toContain("it crashed; the log has the error");
    expect(body).not.toContain(secret);
  });

  test("that runs is kept", async () => {
    const rev = await deployAs("ada", [tab("fine")], undoing(1));
    expect(await newest()).toMatchObject({ rev, outcome: "running" });
  });

  test("that is only awaited is kept, and reports the failure", async () => {
    const reply = await tryDeploy(running(), { flows: [tab("F"), ...(failing[2]?.[1] ?? [])] }, "full", {
      ...tokens["ada"],
      "service-deployment-wait": "3",
    });
    expect(reply.headers["service-deployment-outcome"]).toBe("failed");
    expect(await activeFlows()).toHaveLength(2);
  });

  test("over RPC has its outcome and the failed revision as fields", async () => {
    await deployAs("ada", [tab("good")]);
    const outcome = await call(
      rpcProtocols.gRPC(running().url),
      FlowsService.method.setFlows,
      { flows: [{ id: "m", type: "not-installed" }], onFailure: OnFailure.UNDO, wait: 2 },
      tokens["ada"],
    );
    expect(outcome).toMatchObject({ message: { outcome: DeploymentOutcome.UNDONE, missingTypes: ["not-installed"] } });
    const { undoneRev } = (outcome as { message: { undoneRev: string } }).message;
    expect((await revision(undoneRev))["outcome"]).toBe("undone");
  });

  test("does not wait where no flows run", async () => {
    await using service = await startService({ config: withoutRuntime });
    const reply = await tryDeploy(service, { flows: [tab("f")] }, "full", { "service-deployment-wait": "600" });
    expect(reply.headers["service-deployment-outcome"]).toBe("pending");
  });

  test("waits at most ten minutes", async () => {
    const reply = await tryDeploy(running(), { flows: [] }, "full", {
      ...tokens["ada"],
      "service-deployment-wait": "601",
    });
    expect(reply.json()).toMatchObject({ code: "invalid_argument", message: "wait: must be at most 600 seconds" });
  });
});

describe("whether the active flows run", () => {
  const broken: [
    name: string,
    nodes: Node[],
    message: string,
    verdict: [state: string, outcome: "failed" | "degraded"],
  ][] = [
    [
      "a node logs an error while it is started",
      [tab("F"), functionNode("e", { z: "F", initialize: "throw new Error('start')" })],
      "nodes logged errors while they were started: function e",
      ["running", "degraded"],
    ],
    [
      "a node type is missing",
      [tab("F"), { id: "m", type: "not-installed" }],
      "missing node types: not-installed",
      ["failed", "failed"],
    ],
  ];

  describe.each(broken)("if %s", (_, nodes, message, [state, outcome]) => {
    test.each([{}, { "service-deployment-wait": "1" }])("is the same for all who ask, with %j", async (wait) => {
      const headers = { ...tokens["ada"], ...wait, "idempotency-key": randomUUID() };
      const first = await tryDeploy(running(), { flows: nodes }, "full", headers);
      expect(first.headers["service-deployment-outcome"]).toBe(outcome);
      const known = [outcome, message];
      expect(await verdicts()).toEqual({ status: [state, message], history: known, plan: known });
      const again = await tryDeploy(running(), { flows: nodes }, "full", headers);
      expect(again.headers["service-deployment-outcome"]).toBe(outcome);
    });

    test("is the same over gRPC", async () => {
      const transport = rpcProtocols.gRPC(running().url);
      const flows = nodes.map(
        ({ id, type, ...properties }) => ({ id, type, properties }) as MessageInitShape<typeof NodeSchema>,
      );
      const deployed = await call(transport, FlowsService.method.setFlows, { flows }, tokens["ada"]);
      const code = outcome === "failed" ? DeploymentOutcome.FAILED : DeploymentOutcome.DEGRADED;
      expect(deployed).toMatchObject({ message: { outcome: code } });
      const planned = await call(transport, FlowsService.method.planFlows, { flows }, tokens["ada"]);
      expect(planned).toMatchObject({ message: { activeOutcome: code, activeOutcomeMessage: message } });
    });
  });

  test("counts a node until it is started again or removed, and no other node's errors", async () => {
    const failing = functionNode("e", { z: "F", initialize: "throw new Error('start')" });
    const noisy = functionNode("n", { z: "G", finalize: "throw new Error('stop')" });
    const flows = [tab("F"), failing, tab("G"), noisy];
    const state = async () => ((await verdicts()).plan as string[])[0];
    await deployAs("ada", flows);
    expect(await state()).toBe("degraded");
    await deployAs("ada", [...flows, functionNode("other", { z: "G" })], {}, "nodes");
    expect(await state()).toBe("degraded");
    await deployAs("ada", [tab("F"), { ...failing, initialize: "" }, tab("G"), noisy], {}, "nodes");
    expect(await state()).toBe("running");
    await deployAs("ada", [tab("F")], {}, "nodes");
    expect(await state()).toBe("running");
  });

  test("changes in the history too when they crash later", async () => {
    const late = functionNode("c", {
      z: "F",
      initialize: "setTimeout(() => void Promise.reject(new Error('late')), 300)",
    });
    const reply = await tryDeploy(running(), { flows: [tab("F"), late] }, "full", tokens["ada"]);
    expect(reply.headers["service-deployment-outcome"]).toBe("running");
    await eventually(async () =>
      expect(await verdicts()).toMatchObject({
        status: ["safe", expect.anything()],
        history: ["failed", expect.anything()],
        plan: ["failed", expect.anything()],
      }),
    );
    await deployAs("ada", [tab("good")]);
  });
});

test("a deployment that must be undone on failure still is if the service is killed in the meantime", async () => {
  const config = { runtime: { allow: { env: ["FAIL"] } } };
  const failing = functionNode("c", {
    z: "F",
    initialize: `if (env.get("FAIL")) void Promise.reject(new Error("no"));`,
  });
  const first = await startService({ config });
  const good = await deploy(first, { flows: [tab("good")] });
  const pending = tryDeploy(first, { flows: [tab("F"), failing] }, "full", {
    "service-deployment-on-failure": "undo",
    "service-deployment-wait": "600",
  }).catch(() => {});
  await eventually(async () => {
    const { revisions } = (await first.send("GET", "/revisions")).json() as { revisions: Json[] };
    expect(revisions[0]).toMatchObject({ nodeCount: 2, outcome: "running" });
  });
  await first.kill9();
  await pending;
  await using second = await startService({ config, dataDir: first.dataDir, env: { FAIL: "1" } });
  await eventually(async () => {
    const { revisions } = (await second.send("GET", "/revisions")).json() as { revisions: Json[] };
    expect(revisions.map(({ cause, outcome }) => [cause, outcome])).toEqual([
      ["automatic_undo", "running"],
      ["deployment", "undone"],
      ["deployment", "running"],
      ["deployment", "running"],
    ]);
    expect(revisions[0]).toMatchObject({ restoredRev: good });
  });
  await first[Symbol.asyncDispose]();
});
