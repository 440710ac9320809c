import { expect, test } from "vitest";
import type { FlowStore } from "../../src/store/flow-store.ts";
import { type FlowsUnderTest, openFlows } from "./flows-under-test.ts";

type Node = { readonly id: string; readonly type: string; readonly [name: string]: unknown };

const broker: Node = { id: "b", type: "mqtt-broker" };
const tab: Node = { id: "T", type: "tab", label: "T" };
const secret = { user: "ada", password: "s3cret" };
const withSecret: Node = { ...broker, credentials: secret };

async function deploy(flows: FlowsUnderTest, body: object, headers: Record<string, string> = {}): Promise<string> {
  const reply = await flows.send("POST", "/flows", body, { "service-api-version": "v2", ...headers });
  expect(reply).toMatchObject({ status: 200 });
  return (reply.body as { rev: string }).rev;
}

const stored = (store: FlowStore, id = "b") => {
  const set = store.active().credentials.get(id);
  return set && Object.fromEntries(set);
};

/** Deploys the node with credentials, and removes it. */
async function openWithout(): Promise<FlowsUnderTest> {
  const flows = await openFlows();
  await deploy(flows, { flows: [tab, withSecret] });
  await deploy(flows, { flows: [tab] });
  expect(stored(flows.store)).toBeUndefined();
  return flows;
}

test("credentials come back with their node, also after other deployments", async () => {
  await using flows = await openWithout();
  await deploy(flows, { flows: [{ ...tab, label: "renamed" }] });
  await deploy(flows, { flows: [tab, broker, { id: "other", type: "mqtt-broker" }] });
  expect(stored(flows.store)).toEqual(secret);
  expect(stored(flows.store, "other")).toBeUndefined();
});

test("a plan shows the credentials that come back", async () => {
  await using flows = await openWithout();
  const { body } = await flows.send("POST", "/flows:plan", [tab, broker]);
  expect(JSON.stringify(body)).toContain('"credentials":{"added":["password","user"]}');
  expect(JSON.stringify(body)).not.toContain("s3cret");
});

test("a node of another type with the id gets none, until it has the type again", async () => {
  await using flows = await openWithout();
  await deploy(flows, { flows: [{ ...broker, type: "http request" }] });
  expect(stored(flows.store)).toBeUndefined();
  await deploy(flows, { flows: [broker] });
  expect(stored(flows.store)).toEqual(secret);
});

test.each<[string, object, Record<string, string> | undefined]>([
  ["separate ones that are empty", { flows: [broker], credentials: { b: {} } }, undefined],
  ["separate ones", { flows: [broker], credentials: { b: { user: "bob" } } }, { user: "bob" }],
  ["an inline empty string", { flows: [{ ...broker, credentials: { password: "" } }] }, undefined],
  ["inline ones", { flows: [{ ...broker, credentials: { user: "bob" } }] }, { user: "bob" }],
])("%s in the request take precedence", async (_, body, expected) => {
  await using flows = await openWithout();
  await deploy(flows, body);
  expect(stored(flows.store)).toEqual(expected);
  // What was removed explicitly does not come back later.
  await deploy(flows, { flows: [broker] });
  expect(stored(flows.store)).toEqual(expected);
});

test("credentials that were removed from a node do not come back with it", async () => {
  await using flows = await openFlows();
  await deploy(flows, { flows: [withSecret] });
  await deploy(flows, { flows: [broker], credentials: { b: {} } });
  await deploy(flows, { flows: [] });
  await deploy(flows, { flows: [broker] });
  expect(stored(flows.store)).toBeUndefined();
});

test("a revision that is restored has its own credentials only", async () => {
  await using flows = await openFlows();
  const without = await deploy(flows, { flows: [broker] });
  await deploy(flows, { flows: [withSecret] });
  await deploy(flows, { flows: [] });
  expect(await flows.send("POST", `/revisions/${without}:restore`, {})).toMatchObject({ status: 200 });
  expect(stored(flows.store)).toBeUndefined();
});

test("credentials come back with an undo, a merge and the deployment of one flow", async () => {
  await using flows = await openFlows();
  const inTab = { ...broker, z: "T" };
  await deploy(flows, { flows: [tab, { ...inTab, credentials: secret }] });
  expect(await flows.send("DELETE", "/flow/T")).toMatchObject({ status: 204 });
  expect(await flows.send("POST", "/flows:undo", {})).toMatchObject({ status: 200 });
  expect(stored(flows.store)).toEqual(secret);

  expect(await flows.send("PUT", "/flow/T", { nodes: [] })).toMatchObject({ status: 200 });
  expect(stored(flows.store)).toBeUndefined();
  expect(await flows.send("PUT", "/flow/T", { configs: [broker] })).toMatchObject({ status: 200 });
  expect(stored(flows.store)).toEqual(secret);

  const rev = await deploy(flows, { flows: [tab] });
  await deploy(flows, { flows: [tab, { id: "U", type: "tab" }] });
  await deploy(flows, { flows: [tab, inTab], rev }, { "service-deployment-merge": "true" });
  expect(flows.store.active().flows.nodes.map(({ id }) => id)).toContain("U");
  expect(stored(flows.store)).toEqual(secret);
});

test("credentials are lost when the history has no revision with them any more", async () => {
  await using flows = await openWithout();
  await deploy(flows, { flows: [] });
  await flows.store.prune({ maxCount: 2, maxAgeMs: undefined });
  await deploy(flows, { flows: [broker] });
  expect(stored(flows.store)).toBeUndefined();
});
