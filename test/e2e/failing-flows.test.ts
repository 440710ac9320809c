import { setTimeout as delay } from "node:timers/promises";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, expect, test } from "vitest";
import { DeploymentOutcome, FlowsService, NodeSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { block } from "../../packages/runtime/test/flow-builders.ts";
import { deploy, readRuntime, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, installReporter, type Node, reporter, tab } from "./flow-builders.ts";
import { json, v2 } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService } from "./service.ts";

// Flows that do not work: the API stays available, and the next deployment can correct them.

let service: Service;
beforeAll(async () => {
  // The start of a new process would take a part of the deadline.
  const runtime = { freshProcess: "never", deadlineMs: 2500, maxOldSpaceMb: 128 };
  service = await startService({
    config: { runtime: { ...runtime, restart: { backoffMs: 50 }, safeMode: { exits: 3 } } },
    prepare: installReporter,
  });
});
afterAll(() => service?.[Symbol.asyncDispose]());

const good = endpoint("/works", `msg.payload = "works"`);

async function expectCorrectable(type = "nodes"): Promise<void> {
  await deploy(service, { flows: good }, type);
  // If the process has to be replaced first, the response may precede that.
  await eventually(async () => expect(await service.get("/works")).toBe("works"));
  // The flows respond before their process has reported that all of them run.
  await eventually(async () => expect(await readRuntime(service)).toMatchObject({ state: "running" }));
}

/** Calls the API continuously during an action; each call must succeed. */
async function answersWhile<T>(work: () => Promise<T>): Promise<T> {
  const over = new AbortController();
  let asked = 0;
  const asking = (async () => {
    while (!over.signal.aborted || asked < 4) {
      for (const path of ["/auth/login", "/flows", "/settings"]) {
        const { status } = await service.send("GET", path);
        expect(status).toBe(200);
        asked += 1;
      }
      // Without a pause, the calls would take the CPU that the flows are to have.
      await delay(50);
    }
  })();
  try {
    return await work();
  } finally {
    over.abort();
    await asking;
  }
}

test("a missing node type is accepted, reported, and can be fixed", async () => {
  const flows = [...good, tab("T"), { id: "m", type: "comes-later", z: "T", x: 1, y: 1, wires: [] }];
  const rev = await deploy(service, { flows });
  expect(await readRuntime(service)).toMatchObject({ state: "failed", message: "missing node types: comes-later" });
  expect((await service.send("GET", "/flows")).headers.etag).toBe(`"${rev}"`);
  expect((await service.send("GET", "/flows")).json()).toEqual(flows);
  await expectCorrectable();
});

test("the response to a deployment says why its flows do not run", async () => {
  const flows = [...good, tab("T"), { id: "m", type: "für", z: "T", x: 1, y: 1, wires: [] }];
  const { headers } = await service.send("POST", "/flows", { headers: json, body: JSON.stringify(flows) });
  expect(headers["service-deployment-outcome-message"]).toBe("missing node types: f%C3%BCr");
  const corrected = await service.send("POST", "/flows", { headers: json, body: JSON.stringify(good) });
  expect(corrected.headers).not.toHaveProperty("service-deployment-outcome-message");
});

const missing = ["comes-later", "a, b", "50 %", "für"];

async function outcomeOverRest(flows: readonly Node[], headers: Readonly<Record<string, string>> = {}) {
  const reply = await service.send("POST", "/flows", {
    headers: { ...json, ...headers },
    body: JSON.stringify("service-api-version" in headers ? { flows } : flows),
  });
  const types = reply.headers["service-deployment-missing-types"];
  return {
    body: reply.body,
    outcome: reply.headers["service-deployment-outcome"],
    missingTypes: types === undefined ? [] : String(types).split(", ").map(decodeURIComponent),
  };
}

test.each<[name: string, flows: Node[], outcome: string, missingTypes: string[]]>([
  ["flows that run", good, "running", []],
  [
    "missing node types",
    [...good, tab("T"), ...missing.map((type, index) => ({ id: `m${index}`, type, z: "T", wires: [] }))],
    "failed",
    missing,
  ],
])("the response to %s has their outcome over every protocol", async (_name, flows, outcome, missingTypes) => {
  expect(await outcomeOverRest(flows)).toEqual({ body: "", outcome, missingTypes });
  const overV2 = await outcomeOverRest(flows, v2);
  expect(overV2).toEqual({ body: expect.any(String), outcome, missingTypes });
  // The body in the specification has only the revision.
  expect(JSON.parse(overV2.body)).toEqual({ rev: expect.any(String) });
  const nodes = flows.map(({ id, type, label, ...properties }) =>
    create(NodeSchema, { id, type, ...(typeof label === "string" && { label }), properties: properties as JsonObject }),
  );
  for (const protocol of ["Connect with JSON", "gRPC"] as const) {
    const reply = await call(rpcProtocols[protocol](service.url), FlowsService.method.setFlows, { flows: nodes });
    expect(reply).toMatchObject({
      message: { outcome: DeploymentOutcome[outcome.toUpperCase() as "RUNNING"], missingTypes },
    });
  }
  await expectCorrectable();
});

test("the response reports that the flows crashed the runtime", async () => {
  const initialize = `util.inspect.constructor("return process")().exit(1);`;
  const { outcome } = await outcomeOverRest([tab("T"), functionNode("f", { z: "T", initialize })]);
  expect(outcome).toBe("failed");
  await expectCorrectable();
});

test("the response before the flows have started reports a pending outcome", async () => {
  const hanging = functionNode("f", { z: "T", initialize: block });
  const { outcome } = await outcomeOverRest([tab("T"), hanging], { "x-server-timeout": "1" });
  expect(outcome).toBe("pending");
  await expectCorrectable();
});

test("missing node types beyond 2,000 characters are omitted from the response", async () => {
  const types = Array.from({ length: 50 }, (_, index) => `${"x".repeat(100)}-${index}`);
  const flows = [tab("T"), ...types.map((type, index) => ({ id: `m${index}`, type, z: "T", wires: [] }))];
  const { outcome, missingTypes } = await outcomeOverRest(flows);
  expect([outcome, missingTypes]).toEqual(["failed", types.slice(0, 19)]);
  await expectCorrectable();
});

type Broken = { readonly name: string; readonly flows: readonly Node[]; readonly provoke?: string };
const broken: Broken[] = [
  { name: "a function that loops for ever", flows: endpoint("/bad", block), provoke: "/bad" },
  { name: "an endless loop in On Start", flows: [tab("T"), functionNode("f", { z: "T", initialize: block })] },
  {
    name: "a promise in On Start that never settles",
    flows: [tab("T"), functionNode("f", { z: "T", initialize: "await new Promise(() => {});" })],
  },
  {
    name: "an exception from a timer, on a request",
    flows: endpoint("/bad", `setTimeout(() => { throw new Error("later"); }, 10)`),
    provoke: "/bad",
  },
  {
    name: "a function that exhausts the memory, on a request",
    flows: endpoint("/bad", "const all = []; for (;;) all.push(new Array(1e5).fill({}));"),
    provoke: "/bad",
  },
  {
    name: "a function that ends the process",
    flows: endpoint("/bad", `util.inspect.constructor("return process")().exit(0)`),
    provoke: "/bad",
  },
];

test.for(broken)("$name: the API answers throughout, and the correction runs", async ({ flows, provoke }) => {
  await deploy(service, { flows: good });
  await answersWhile(async () => {
    const rev = await deploy(service, { flows });
    expect((await service.send("GET", "/flows")).headers.etag).toBe(`"${rev}"`);
    if (provoke !== undefined) {
      await service.get(provoke).catch(() => "");
    }
    await expectCorrectable();
  });
});

test("a correction does not wait for a hanging deployment", async () => {
  await deploy(service, { flows: good });
  const hanging = tryDeploy(service, {
    flows: [tab("T"), functionNode("f", { z: "T", initialize: `node.warn("hangs now"); ${block}` })],
  });
  const { rev } = await eventually(async () => {
    const flows = (await service.send("GET", "/flows")).json() as { id: string }[];
    expect(flows.map(({ id }) => id)).toContain("f");
    return { rev: (await service.send("GET", "/flows")).headers.etag };
  });
  await answersWhile(expectCorrectable);
  const reply = await hanging;
  expect(reply.status).toBe(200);
  expect(rev).toBe(`"${(reply.json() as { rev: string }).rev}"`);
});

test("flows that crash repeatedly are not started until the next deployment", async () => {
  const crashing = functionNode("f", { z: "T", initialize: `void Promise.reject(new Error("each time"));` });
  await deploy(service, { flows: [...good, tab("T"), crashing] });
  await answersWhile(() =>
    eventually(async () => {
      expect((await readRuntime(service)).state).toBe("safe");
    }),
  );
  expect(await service.get("/works")).toContain("Cannot GET /works");
  await expectCorrectable("flows");
});

test("a module installed later is found by reload", async () => {
  await using fresh = await startService();
  const flows = [tab("T"), reporter("a", "T")];
  await deploy(fresh, { flows, credentials: { a: { user: "u" } } });
  expect(await readRuntime(fresh)).toMatchObject({ state: "failed", message: "missing node types: reporter" });
  await installReporter(fresh.dataDir);
  await deploy(fresh, { flows: [] }, "reload");
  expect(await readRuntime(fresh)).toMatchObject({ state: "running" });
  expect(JSON.parse(await fresh.get("/reporter"))).toMatchObject({ credentials: { "the a": { user: "u" } } });
});
