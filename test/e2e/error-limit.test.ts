import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { DeploymentOutcome, DeploymentType, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { tryDeploy } from "./deploy.ts";
import { functionNode, type Node, tab } from "./flow-builders.ts";
import { type Json, useOperators } from "./operators.ts";
import type { Reply } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { watch, watchProtocols } from "./watch-events.ts";

const { tokens, running, send, deployAs, revision, newest, verdicts } = useOperators();

const sse = watchProtocols["SSE"] as (typeof watchProtocols)[string];

/** Logs an error each 20 ms, from shortly after its start. */
const failing = (id: string, z: string, wires: string[][] = [[]]): Node =>
  functionNode(id, {
    z,
    wires,
    initialize: `context.set("timer", setInterval(() => node.error("boom of ${id}"), 20));`,
    finalize: `clearInterval(context.get("timer"));`,
  });

/** Passes a message on each 20 ms. */
const sending = (id: string, z: string, wires: string[][]): Node =>
  functionNode(id, {
    z,
    wires,
    initialize: `context.set("timer", setInterval(() => node.send({ payload: 1 }), 20));`,
    finalize: `clearInterval(context.get("timer"));`,
  });

function tryAs(
  flows: readonly Node[],
  type: string,
  headers: Readonly<Record<string, string>> = { "service-deployment-wait": "1" },
): Promise<Reply> {
  return tryDeploy(running(), { flows }, type, { ...tokens["ada"], ...headers });
}

const outcomeOf = ({ headers }: Reply): unknown => headers["service-deployment-outcome"];

const good = [tab("G"), functionNode("fine", { z: "G" })];

test("errors of a new node are a failure, about which all who ask get the same answer", async () => {
  await deployAs("ada", good);
  await using events = watch(sse, running().url, { kinds: ["deployment"] }, tokens["ada"]);
  const flows = [...good, tab("T"), { ...failing("bad", "T"), name: "parse" }];
  const headers = { "service-deployment-wait": "5", "idempotency-key": randomUUID() };
  const reply = await tryAs(flows, "nodes", headers);
  expect(outcomeOf(reply)).toBe("degraded");
  const message = expect.stringMatching(
    /^nodes logged \d+ errors? \(max_errors: 0\), first function "parse" \(bad\) in ".+": "boom of bad"$/,
  );
  const failed = ["degraded", message];
  expect(await verdicts()).toEqual({ status: ["running", message], history: failed, plan: failed });
  expect(outcomeOf(await tryAs(flows, "nodes", headers))).toBe("degraded");
  const seen = await events.until(({ event }) => (event["deployment"] as Json | undefined)?.["outcome"] === "degraded");
  expect(seen.at(-1)?.event).toMatchObject({ deployment: { failure: message } });
});

test("the flows before are deployed again if the caller asks for that", async () => {
  const before = await deployAs("ada", good);
  const reply = await tryAs([...good, failing("bad", "G")], "full", {
    "service-deployment-wait": "5",
    "service-deployment-on-failure": "undo",
  });
  expect(outcomeOf(reply)).toBe("undone");
  expect(await newest()).toMatchObject({
    cause: "automatic_undo",
    restoredRev: before,
    outcome: "running",
    message: expect.stringMatching(
      /: nodes logged \d+ errors? \(max_errors: 0\), first function bad in "tab G": "boom of bad"$/,
    ),
  });
  expect(await revision(String(reply.headers["service-deployment-undone-rev"]))).toMatchObject({ outcome: "undone" });
  expect(await verdicts()).toMatchObject({ status: ["running", undefined], history: ["running", undefined] });
});

test("errors of nodes that the deployment does not affect do not count, unless it restarts all", async () => {
  const noisy = [tab("N"), failing("noisy", "N", [["behind"]]), functionNode("behind", { z: "N" })];
  await deployAs("ada", noisy);
  const changed = noisy.map((node) => (node.id === "behind" ? { ...node, func: "return null;" } : node));
  expect(outcomeOf(await tryAs([...changed, ...good], "nodes"))).toBe("running");
  expect(outcomeOf(await tryAs([...noisy, ...good], "flows"))).toBe("running");
  expect(outcomeOf(await tryAs([...noisy, ...good], "full"))).toBe("degraded");
  expect(outcomeOf(await tryAs(good, "nodes"))).toBe("running");
});

test("errors of unchanged nodes count if messages of changed ones reach them", async () => {
  const receiver = functionNode("receiver", { z: "B", func: `node.error("unexpected");` });
  const flows = (links: string[]): Node[] => [
    tab("A"),
    sending("source", "A", [["out"]]),
    { id: "out", type: "link out", z: "A", x: 1, y: 1, wires: [], links },
    tab("B"),
    { id: "in", type: "link in", z: "B", x: 1, y: 1, wires: [["receiver"]], links: [] },
    receiver,
  ];
  await deployAs("ada", flows([]));
  const reply = await tryAs(flows(["in"]), "nodes", { "service-deployment-wait": "5" });
  expect(outcomeOf(reply)).toBe("degraded");
  expect(await newest()).toMatchObject({ outcomeMessage: expect.stringContaining("first function receiver in") });
});

test("errors that a catch node receives count too", async () => {
  const flows: Node[] = [
    tab("A"),
    sending("source", "A", [["throwing"]]),
    functionNode("throwing", { z: "A", func: `throw new Error("unexpected");` }),
    { id: "catching", type: "catch", z: "A", x: 1, y: 1, scope: null, wires: [["caught"]] },
    functionNode("caught", { z: "A" }),
  ];
  await deployAs("ada", good);
  const reply = await tryAs([...good, ...flows], "nodes", { "service-deployment-wait": "5" });
  expect(outcomeOf(reply)).toBe("degraded");
  expect(await newest()).toMatchObject({ outcomeMessage: expect.stringContaining("first function throwing in") });
});

test("errors of nodes in a subflow count if it has changed", async () => {
  const flows = (func: string): Node[] => [
    { id: "S", type: "subflow", name: "sub", in: [{ x: 1, y: 1, wires: [{ id: "inner" }] }], out: [] },
    functionNode("inner", { z: "S", func }),
    tab("A"),
    sending("source", "A", [["instance"]]),
    { id: "instance", type: "subflow:S", z: "A", x: 1, y: 1, wires: [] },
  ];
  await deployAs("ada", flows(""));
  const reply = await tryAs(flows(`node.error("inside");`), "nodes", { "service-deployment-wait": "5" });
  expect(outcomeOf(reply)).toBe("degraded");
});

test("as many errors are permitted as the caller says", async () => {
  const three = functionNode("three", {
    z: "G",
    initialize: "for (const ms of [20, 40, 60]) setTimeout(() => node.error(`boom ${ms}`), ms);",
  });
  const waiting = (maxErrors: string) => ({
    "service-deployment-wait": "1",
    "service-deployment-max-errors": maxErrors,
  });
  await deployAs("ada", good);
  expect(outcomeOf(await tryAs([...good, three], "full", waiting("3")))).toBe("running");
  expect(outcomeOf(await tryAs([...good, three], "full", waiting("2")))).toBe("degraded");
});

test("a deployment that fixes a node is not blamed for the errors before it", async () => {
  const flows = (node: Node): Node[] => [tab("T"), node];
  await deployAs("ada", flows(failing("fixed", "T")));
  for (const type of ["nodes", "flows", "full"]) {
    expect(outcomeOf(await tryAs(flows(functionNode("fixed", { z: "T" })), type))).toBe("running");
    await deployAs("ada", flows(failing("fixed", "T")), {}, "nodes");
  }
});

test("all changes of flows have the limit, which waits ten seconds unless the caller says how long", async () => {
  await deployAs("ada", good);
  const bad = await deployAs("ada", [tab("T"), failing("bad", "T")]);
  await deployAs("ada", good);
  const limit = { "service-deployment-max-errors": "0" };
  const { z: _, ...node } = failing("new", "T");
  const flow = JSON.stringify({ label: "new", nodes: [node] });
  const requests: [method: string, path: string, body?: string][] = [
    ["POST", `/revisions/${bad}:restore`],
    ["POST", "/flow", flow],
  ];
  for (const [method, path, body] of requests) {
    const reply = await send(method, path, { headers: limit, ...(body !== undefined && { body }) });
    expect({ path, outcome: outcomeOf(reply) }).toEqual({ path, outcome: "degraded" });
  }
  await deployAs("ada", [tab("T"), failing("bad", "T")]);
  await deployAs("ada", good);
  expect(outcomeOf(await send("POST", "/flows:undo", { headers: limit }))).toBe("degraded");
});

test("the limit is a field over gRPC", async () => {
  await deployAs("ada", good);
  const request = { flows: [], maxErrors: 0, wait: 1, deploymentType: DeploymentType.NODES };
  const transport = rpcProtocols.gRPC(running().url);
  const outcome = await call(transport, FlowsService.method.setFlows, request, tokens["ada"]);
  expect(outcome).toMatchObject({ message: { outcome: DeploymentOutcome.RUNNING } });
});

test("a limit without time is rejected", async () => {
  const headers = { "service-deployment-max-errors": "1", "service-deployment-wait": "0" };
  const reply = await tryAs(good, "full", headers);
  const message = "max errors: can't be set with a wait of 0 seconds, in which no errors are counted";
  expect([reply.status, reply.json()]).toMatchObject([400, { code: "invalid_argument", message }]);
});

test("running out of memory is a failure", async () => {
  await deployAs("ada", good);
  const hungry = functionNode("hungry", {
    z: "G",
    initialize: "const all = []; setInterval(() => { for (let i = 0; i < 4e6; i++) all.push({ i }); }, 1);",
  });
  const reply = await tryAs([...good, hungry], "full", {
    "service-deployment-wait": "60",
    "service-deployment-on-failure": "undo",
  });
  expect(outcomeOf(reply)).toBe("undone");
});
