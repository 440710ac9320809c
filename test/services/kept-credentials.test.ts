import { createClient } from "@connectrpc/connect";
import { pino } from "pino";
import { expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { openPreparation } from "../../src/deployments/preparation/preparation.ts";
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

type Warning = { readonly kind: string; readonly nodeId: string; readonly message: string };

/** The warnings of a plan about credentials. */
async function planned(flows: FlowsUnderTest, body: object): Promise<readonly string[]> {
  const reply = await flows.send("POST", "/flows:plan", body, { "service-api-version": "v2" });
  expect(reply).toMatchObject({ status: 200 });
  const { warnings = [] } = reply.body as { warnings?: readonly Warning[] };
  return warnings
    .filter(({ kind }) => kind.endsWith("_credentials"))
    .map(({ kind, nodeId, message }) => `${kind} ${nodeId} ${message}`);
}

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

test("credentials in the map of a global-config node come back with it", async () => {
  await using flows = await openFlows();
  const config: Node = { id: "g", type: "global-config", env: [{ name: "KEY", type: "cred", value: "" }] };
  await deploy(flows, { flows: [tab, { ...config, credentials: { map: { KEY: "s3cret", has_KEY: true } } }] });
  await deploy(flows, { flows: [tab] });
  expect(stored(flows.store, "g")).toBeUndefined();
  await deploy(flows, { flows: [tab, config] });
  expect(stored(flows.store, "g")).toEqual({ KEY: "s3cret" });
  await deploy(flows, { flows: [tab] });
  await deploy(flows, { flows: [tab, config], credentials: { g: { map: {} } } });
  expect(stored(flows.store, "g")).toBeUndefined();
  await deploy(flows, { flows: [tab, { ...broker, id: "g", credentials: secret }] });
  await deploy(flows, { flows: [tab, config], credentials: { g: { map: { KEY: "new", has_KEY: true } } } });
  expect(stored(flows.store, "g")).toEqual({ KEY: "new" });
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

test("a plan names credentials that are lost since the history has no revision with them any more", async () => {
  await using flows = await openFlows();
  const rev = await deploy(flows, { flows: [tab, withSecret] });
  await deploy(flows, { flows: [tab] });
  await deploy(flows, { flows: [] });
  await flows.store.prune({ maxCount: 2, maxAgeMs: undefined });
  expect(await planned(flows, { flows: [broker] })).toEqual([
    `lost_credentials b mqtt-broker "b": it comes back without its credentials, because the history has no revision ${rev} any more: password, user`,
  ]);
  // Not those that the request determines.
  expect(await planned(flows, { flows: [broker], credentials: { b: { token: "t" } } })).toEqual([]);
  expect(await planned(flows, { flows: [broker], credentials: { b: {} } })).toEqual([]);
  await deploy(flows, { flows: [broker] });
  expect(stored(flows.store)).toBeUndefined();
  expect(await planned(flows, { flows: [broker, tab] })).toEqual([]);
});

test("a plan names credentials of a node that comes back with another type", async () => {
  await using flows = await openWithout();
  const other = { ...broker, type: "http request" };
  expect(await planned(flows, { flows: [other] })).toEqual([
    'lost_credentials b http request "b": it comes back without its credentials, because it had them with the type "mqtt-broker": password, user',
  ]);
  await deploy(flows, { flows: [other] });
  expect(await planned(flows, { flows: [other, tab] })).toEqual([]);
  expect(await planned(flows, { flows: [broker] })).toEqual([]);
});

test("a plan says that credentials of a removed node come back with it", async () => {
  await using flows = await openFlows();
  const rev = await deploy(flows, { flows: [withSecret] });
  expect(await planned(flows, { flows: [] })).toEqual([
    `removed_credentials b mqtt-broker "b": its credentials are removed with it: password, user; they come back if it is deployed again with this id and type, while revision ${rev} is in the history`,
  ]);
});

const toFlow = ({ credentials, ...node }: Node) => ({
  ...node,
  ...(credentials !== undefined && { credentials: { values: credentials as Record<string, string> } }),
});

test.each<[string, (flows: FlowsUnderTest, nodes: Node[]) => Promise<unknown>]>([
  ["REST", (flows, nodes) => deploy(flows, { flows: nodes })],
  ["RPC", (flows, nodes) => createClient(FlowsService, flows.transport).setFlows({ flows: nodes.map(toFlow) })],
  ["the deployment of one flow", (flows, nodes) => flows.send("PUT", "/flow/global", { configs: nodes })],
])("over %s, a node whose type changes keeps only what was submitted for it", async (_, send) => {
  await using flows = await openFlows();
  await send(flows, [withSecret]);
  expect(stored(flows.store)).toEqual(secret);
  const changed = { ...broker, type: "http request" };
  expect(await planned(flows, { flows: [changed] })).toEqual([
    'lost_credentials b mqtt-broker "b": its type becomes "http request", and its credentials are lost: password, user',
  ]);
  await send(flows, [changed]);
  expect(stored(flows.store)).toBeUndefined();
  await send(flows, [broker]);
  expect(stored(flows.store)).toEqual(secret);

  const own = { ...changed, credentials: { user: "bob" } };
  expect(await planned(flows, { flows: [own] })).toEqual([
    'lost_credentials b mqtt-broker "b": its type becomes "http request", and its credentials are lost: password',
  ]);
  await send(flows, [own]);
  expect(stored(flows.store)).toEqual({ user: "bob" });
  await send(flows, [broker]);
  expect(stored(flows.store)).toEqual(secret);
});

test("a merge drops the credentials of a node whose type changes", async () => {
  await using flows = await openFlows();
  const rev = await deploy(flows, { flows: [withSecret] });
  await deploy(flows, { flows: [broker, tab] });
  const changed = { ...broker, type: "http request" };
  await deploy(flows, { flows: [changed], rev }, { "service-deployment-merge": "true" });
  expect(flows.store.active().flows.nodes).toContainEqual(changed);
  expect(stored(flows.store)).toBeUndefined();
});

test("a large deployment is not parsed again, although credentials are kept", async () => {
  const limit = { maxMs: 600_000, option: "" };
  await using preparation = openPreparation({
    secrets: () => [],
    log: pino({ level: "silent" }),
    memoryMb: 512,
    readLimit: limit,
    deploymentLimit: limit,
  });
  await using flows = await openFlows({
    prepare: () => async (request, current, caller) => {
      const prepared = await preparation.prepare(request, current, caller);
      const { outcome } = prepared;
      if (outcome.kind !== "flows") {
        return prepared;
      }
      const { json, count, types, needs } = outcome.flows;
      const document = {
        json,
        count,
        types,
        needs,
        get nodes(): never {
          throw new Error("the document was parsed");
        },
      };
      return { ...prepared, outcome: { ...outcome, flows: document } };
    },
  });
  const large = { id: "c", type: "comment", info: "x".repeat(100_000) };
  await deploy(flows, { flows: [large, withSecret, { ...withSecret, id: "other" }] });
  await deploy(flows, { flows: [large, { ...broker, id: "other", type: "http request" }] });
  await deploy(flows, { flows: [large, broker] });
  expect(stored(flows.store)).toEqual(secret);
  await deploy(flows, { flows: [large, broker, { ...broker, id: "other" }] });
  expect(stored(flows.store, "other")).toEqual(secret);
});

/** A store in which a node writes before each of the first commits of `open` flows. */
async function openWithWrites(writes: readonly string[]) {
  const left = [...writes];
  let isOpen = false;
  const wrap = (store: FlowStore): FlowStore => ({
    ...store,
    async commit(...parameters) {
      const password = isOpen ? left.shift() : undefined;
      if (password !== undefined) {
        const sets = new Map([["b", new Map([["user", "ada"]]).set("password", password)]]);
        await store.writeCredentials({ sets, sinceSeq: undefined, token: undefined });
      }
      return store.commit(...parameters);
    },
  });
  const flows = await openFlows({ wrap });
  await deploy(flows, { flows: [tab, withSecret] });
  isOpen = true;
  return flows;
}

test("what a node writes during a deployment is kept, also if that has other credentials of it", async () => {
  await using flows = await openWithWrites(["one", "two", "three"]);
  await deploy(flows, { flows: [{ ...tab, label: "renamed" }, broker] });
  expect(stored(flows.store)).toEqual({ user: "ada", password: "one" });
  await deploy(flows, { flows: [tab, { ...broker, credentials: { user: "bob", password: "__PWRD__" } }] });
  expect(stored(flows.store)).toEqual({ user: "bob", password: "three" });
});

test("a node that writes all the time does not prevent a deployment with its credentials", async () => {
  await using flows = await openWithWrites(Array.from({ length: 10 }, (_, at) => `p${at}`));
  await deploy(flows, { flows: [tab, { ...broker, credentials: { user: "bob" } }] });
  expect(stored(flows.store)?.["user"]).toBe("bob");
});
