import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDatabase } from "../postgres/postgres.ts";
import { deploy, readRuntime } from "./deploy.ts";
import { toolsUrl } from "./editor.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { askKeeper, installKeeper, keeper } from "./keeper.ts";
import { send } from "./rest.ts";
import { eventually, type Service, startService } from "./service.ts";

const flows = [tab("T"), keeper("k")];
const credentials = { k: { user: "ada", token: "t1" } };

/** Resolves when the service has stored it. */
async function renew(service: Service, token: string, id = "k", others: object = {}): Promise<void> {
  expect(await askKeeper(service, "/keeper/renew", { id, json: JSON.stringify({ token, ...others }) })).toEqual({
    stored: true,
  });
}

const read = (service: Service, id = "k") => askKeeper(service, "/keeper", { id });

/** The flows may be starting. */
function expectToken(service: Service, token: string): Promise<void> {
  return eventually(async () => {
    expect(await read(service)).toMatchObject({ stored: { user: "ada", token } });
  });
}

async function undo(service: Service): Promise<void> {
  const reply = await service.send("POST", "/flows:undo");
  expect([reply.status, reply.body]).toMatchObject([200, expect.anything()]);
}

describe("on one replica", () => {
  let service: Service;
  beforeAll(async () => {
    service = await startService({ config: { nodeRed: { port: 0 } }, prepare: installKeeper });
  });
  afterAll(() => service?.[Symbol.asyncDispose]());

  test("a renewed token is the active one after deployments of each type, undo and restore", async () => {
    const first = await deploy(service, { flows, credentials });
    await renew(service, "t2");
    for (const [label, type] of [
      ["one", "full"],
      ["two", "flows"],
      ["three", "nodes"],
    ] as const) {
      await deploy(service, { flows: [{ ...tab("T"), label }, keeper("k")] }, type);
      await expectToken(service, "t2");
    }
    await renew(service, "t3");
    await undo(service);
    await expectToken(service, "t3");
    const restored = await service.send("POST", `/revisions/${first}:restore`);
    expect(restored.status).toBe(200);
    await expectToken(service, "t3");
    const restarted = await service.send("POST", "/runtime:restart");
    expect(restarted.status).toBe(200);
    await expectToken(service, "t3");
  });

  test("a node whose credentials it has renewed itself is not restarted by a deployment of others", async () => {
    await deploy(service, { flows, credentials });
    await renew(service, "t2");
    const before = await read(service);
    expect(before).toMatchObject({ started: { token: "t1" }, stored: { token: "t2" } });
    await deploy(service, { flows: [...flows, functionNode("f", { z: "T" })] }, "nodes");
    expect(await read(service)).toEqual(before);
  });

  test("new credentials of a deployment replace those of the node, until that is undone", async () => {
    await deploy(service, { flows, credentials });
    await renew(service, "t2");
    await deploy(service, { flows, credentials: { k: { user: "ada", token: "s3" } } });
    await expectToken(service, "s3");
    await undo(service);
    await expectToken(service, "t2");
    await undo(service);
    await expectToken(service, "s3");
    await deploy(service, { flows: [tab("T"), keeper("k", { credentials: { token: "s4" } })] }, "nodes");
    expect(await read(service)).toMatchObject({ started: { user: "ada", token: "s4" } });
  });

  test("a removed node has its newest token when it comes back, and one of another type has none", async () => {
    await deploy(service, { flows, credentials });
    await renew(service, "t2");
    await deploy(service, { flows: [tab("T")] });
    await deploy(service, { flows });
    await expectToken(service, "t2");
    await deploy(service, { flows: [tab("T")] });
    await undo(service);
    await expectToken(service, "t2");
    const other = functionNode("k", { z: "T", initialize: "" });
    await deploy(service, { flows: [tab("T"), other] });
    await deploy(service, { flows: [tab("T"), other, keeper("another")] });
    expect(await read(service)).toMatchObject({ stored: null });
  });

  test("credentials keep the types of their values, and can be removed", async () => {
    await deploy(service, { flows, credentials });
    const values = { expires: 1_700_000_000_000, scopes: ["a", "b"], nested: { is: true, none: null } };
    await renew(service, "t2", "k", values);
    await deploy(service, { flows: [...flows, keeper("l")] });
    expect(await read(service)).toMatchObject({ started: { user: "ada", token: "t2", ...values } });
    await askKeeper(service, "/keeper/forget", { id: "k" });
    await deploy(service, { flows });
    expect(await read(service)).toMatchObject({ started: {}, stored: null });
  });

  test("the callback of a provider before the first deployment of a node is kept until then", async () => {
    await deploy(service, { flows: [tab("T"), keeper("other")] });
    const url = toolsUrl(service);
    const reply = await send(url, "GET", "/keeper/callback?id=new&code=c0de-of-provider");
    expect(reply.json()).toEqual({ stored: true });
    await deploy(service, { flows: [tab("T"), keeper("other"), functionNode("f", { z: "T" })] });
    expect((await send(url, "GET", "/credentials/keeper/new")).json()).toEqual({ user: "", has_token: true });
    await deploy(service, { flows: [tab("T"), keeper("other"), keeper("new", { credentials: { user: "ada" } })] });
    expect(await read(service, "new")).toMatchObject({ started: { user: "ada", token: "c0de-of-provider" } });
    await deploy(service, { flows: [tab("T"), keeper("other"), keeper("new"), functionNode("f", { z: "T" })] });
    expect(await read(service, "new")).toMatchObject({ started: { user: "ada", token: "c0de-of-provider" } });
  });

  test("what a node writes is audited and redacted, and its values are nowhere", async () => {
    await deploy(service, { flows, credentials });
    await renew(service, "very-s3cret-token");
    const audit = await service.send("GET", "/audit?kind=credentials_written");
    const [newest] = (audit.json() as { entries: unknown[] }).entries;
    expect(newest).toMatchObject({ kind: "credentials_written", subject: "k", detail: "keeper" });
    expect(audit.body).not.toContain("s3cret");
    const leak = functionNode("leak", { z: "T", initialize: `flow.set("leaked", "a very-s3cret-token")` });
    await deploy(service, { flows: [...flows, leak] });
    const leaked = await service.send("GET", "/context/flow/T/leaked");
    expect(leaked.json()).toMatchObject({ value: "a [redacted]" });
    expect(service.log()).not.toContain("very-s3cret");
  });

  test("credentials beyond the limits are not kept, which is logged without values", async () => {
    await deploy(service, { flows, credentials });
    expect(await askKeeper(service, "/keeper/renew", { id: "k", json: "{}", chars: "70000" })).toEqual({
      stored: true,
    });
    await service.untilLogged(/the credentials of the node \\"k\\" can't be stored: they must have at most 64 KiB/);
    await deploy(service, { flows: [...flows, keeper("l")] });
    await expectToken(service, "t1");
  });

  test("a setting that a module stores is there after the next deployment", async () => {
    await deploy(service, { flows });
    expect(await askKeeper(service, "/keeper/settings")).toEqual({ atLoad: null, now: null });
    await askKeeper(service, "/keeper/set", { json: JSON.stringify({ n: [1] }) });
    await deploy(service, { flows: [...flows, keeper("l")] });
    expect(await askKeeper(service, "/keeper/settings")).toEqual({ atLoad: { n: [1] }, now: { n: [1] } });
    const large = { name: "keeperLarge", json: JSON.stringify("x".repeat(1_000)) };
    expect(await askKeeper(service, "/keeper/set", large)).toEqual({ stored: true });
    await askKeeper(service, "/keeper/unset");
    await deploy(service, { flows });
    expect(await askKeeper(service, "/keeper/settings")).toEqual({ atLoad: null, now: null });
  });
});

test("what nodes store survives SIGKILL of the service, once it is acknowledged", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-writes-"));
  await installKeeper(folder.path);
  {
    await using service = await startService({ dataDir: folder.path, ownProcess: true });
    await deploy(service, { flows, credentials });
    await renew(service, "t2");
    await askKeeper(service, "/keeper/set", { json: "7" });
    await service.kill9();
  }
  await using service = await startService({ dataDir: folder.path, ownProcess: true });
  await expectToken(service, "t2");
  expect(await askKeeper(service, "/keeper/settings")).toEqual({ atLoad: 7, now: 7 });
  await deploy(service, { flows: [...flows, keeper("l")] });
  await undo(service);
  await expectToken(service, "t2");
});

describe("on two replicas, of which one runs the flows", () => {
  test("the next one continues with what nodes have stored, which the former can't change any more", async () => {
    await using database = await createDatabase();
    const config = {
      store: database.url,
      credentialSecret: "a secret that all replicas share",
      runtime: { mode: "one", leaseMs: 2_000 },
    };
    await using stack = new AsyncDisposableStack();
    const start = async () => stack.use(await startService({ config, prepare: installKeeper, ownProcess: true }));
    const [one, other] = [await start(), await start()];
    await deploy(other, { flows, credentials });
    await expectToken(one, "t1");
    await renew(one, "t2");
    await askKeeper(one, "/keeper/set", { json: "7" });
    // It has read what the other replica has stored.
    await deploy(other, { flows: [...flows, keeper("l")] });
    await expectToken(one, "t2");
    await renew(one, "t3");
    await one.kill9();
    await eventually(async () => expect(await readRuntime(other)).toMatchObject({ state: "running" }));
    await expectToken(other, "t3");
    expect(await askKeeper(other, "/keeper/settings")).toEqual({ atLoad: 7, now: 7 });
    await undo(other);
    await expectToken(other, "t3");
  });
});
