import { createClient } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { type Node, tab } from "./flow-builders.ts";
import { bearer, json } from "./rest.ts";
import { rpcProtocols } from "./rpc.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";
import { login, user } from "./users.ts";

/** A service in which comparing flows that contain the word "hang" never ends. */
async function start(limits: object, drain: object = {}) {
  const users = [user("admin", "*"), user("reader", "read"), user("other", "read")];
  const service = await startService({
    config: { ...withoutRuntime, adminAuth: { users }, limits, drain },
    env: { NODE_OPTIONS: `--import=${new URL("../fixtures/analysis/hanging.ts", import.meta.url).href}` },
  });
  const as = async (username: string, scope?: string) =>
    bearer(await login(service, { username, ...(scope !== undefined && { scope }) }));
  const tokens = { admin: await as("admin"), reader: await as("reader", "read"), other: await as("other", "read") };
  return { service, ...tokens, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
}

function plan(service: Service, headers: object = {}, flows: readonly Node[] = [tab("a")], signal?: AbortSignal) {
  const body = JSON.stringify(flows);
  return service.send("POST", "/flows:plan", { headers: { ...json, ...headers }, body, ...(signal && { signal }) });
}

const hanging = [tab("hang")];
const comparing = /comparing for ever/;
/** Longer than a test. */
const hourMs = 3_600_000;

test("a comparison that never ends is ended after limits.analysisMs, over each protocol", async () => {
  await using started = await start({ analysisMs: 50 });
  const { service, admin, reader } = started;
  const { status, body } = await plan(service, reader, hanging);
  expect([status, JSON.parse(body)]).toEqual([
    429,
    {
      code: "limit_exceeded",
      message: expect.stringMatching(
        /^comparing these flows (?:took more than 0.05 s: make|could not begin within 0.05 s \()/,
      ),
    },
  ]);
  await deploy(service, { flows: hanging }, "full", admin);
  const { body: diff } = await service.send("GET", `/revisions/${await activeRev(service, reader)}:diff`, {
    headers: reader,
  });
  expect(JSON.parse(diff)).toMatchObject({ code: "limit_exceeded" });
  for (const transport of Object.values(rpcProtocols)) {
    const client = createClient(FlowsService, transport(service.url));
    await expect(client.planFlows({ flows: [{ id: "hang", type: "tab" }] }, { headers: reader })).rejects.toThrow(
      "[resource_exhausted] comparing these flows",
    );
  }
});

test("a conflict that takes too long to describe is reported without its changes, and is not merged", async () => {
  await using started = await start({ deploymentAnalysisMs: 1 });
  const { service, admin } = started;
  const rev = await deploy(service, { flows: [tab("a")] }, "full", admin);
  await deploy(service, { flows: [tab("a"), tab("b")] }, "full", admin);
  const mine = { flows: [tab("a"), tab("c")], rev };
  const { status, body } = await tryDeploy(service, mine, "full", admin);
  expect([status, JSON.parse(body)]).toMatchObject([409, { code: "version_mismatch", active: { user: "admin" } }]);
  expect(JSON.parse(body)).not.toHaveProperty("changes");
  const merged = await tryDeploy(service, mine, "full", { ...admin, "service-deployment-merge": "true" });
  expect([merged.status, merged.json()]).toMatchObject([
    429,
    { code: "limit_exceeded", message: expect.stringMatching(/^merging these flows .*limits\.deploymentAnalysisMs/) },
  ]);
});

describe("without an early limit", () => {
  let started: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    started = await start({ analysisMs: hourMs }, { graceMs: 100 });
  });
  afterAll(() => started?.[Symbol.asyncDispose]());

  test("while a user's comparison computes, others compare, deploy and merge, and the end of its client ends it", async () => {
    const { service, admin, reader, other } = started;
    const rev = await deploy(service, { flows: [tab("a")] }, "full", admin);
    const client = new AbortController();
    const endless = plan(service, reader, hanging, client.signal);
    endless.catch(() => {});
    await service.untilLogged(comparing);
    const waiting = plan(service, reader);

    expect((await plan(service, other)).status).toBe(200);
    await deploy(service, { flows: [tab("a"), tab("b")] }, "full", admin);
    const mine = { flows: [tab("a"), tab("c")], rev };
    expect((await tryDeploy(service, mine, "full", admin)).json()).toMatchObject({ changeCount: 2 });
    const merging = { ...admin, "service-deployment-merge": "true" };
    expect((await tryDeploy(service, mine, "full", merging)).status).toBe(200);

    client.abort();
    await expect(endless).rejects.toThrow("aborted");
    expect((await waiting).status).toBe(200);
  });

  test("the deadline of the caller ends a comparison", async () => {
    const { service, reader } = started;
    const client = createClient(FlowsService, rpcProtocols.gRPC(service.url));
    const flows = [{ id: "hang", type: "tab" }];
    await expect(client.planFlows({ flows }, { headers: reader, timeoutMs: 1_000 })).rejects.toThrow(
      "[deadline_exceeded]",
    );
    expect((await plan(service, reader)).status).toBe(200);
  });

  // The last one.
  test("SIGTERM ends the service after the grace period while a comparison computes", async () => {
    const { service, reader } = started;
    const before = service.log().split("comparing for ever").length;
    const endless = plan(service, reader, hanging);
    endless.catch(() => {});
    await service.untilLogged(new RegExp(`(?:${comparing.source}[^]*){${before}}`));
    expect(await service.stop()).toBe(0);
    await expect(endless).rejects.toThrow("socket hang up");
  });
});

async function activeRev(service: Service, headers: Readonly<Record<string, string>>): Promise<string> {
  const reply = await service.send("GET", "/flows", { headers });
  return JSON.parse(reply.headers["etag"] ?? '""') as string;
}
