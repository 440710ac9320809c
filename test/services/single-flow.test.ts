import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type FlowNode, maxNodeDepth } from "@flowgate/flows";
import { sets } from "../../packages/flows/test/builders.ts";
import { type FlowsUnderTest, openFlows } from "./flows-under-test.ts";

const place = { x: 1, y: 1 };

const document: readonly (FlowNode & { readonly credentials?: JsonObject })[] = [
  { id: "c0", type: "broker" },
  { id: "a", type: "tab", label: "A", disabled: false, env: [], locked: true },
  { id: "b", type: "tab", label: 7, disabled: "no" },
  { id: "a1", type: "debug", z: "a", ...place, wires: [["b1"]], credentials: { user: "u", password: "p" } },
  { id: "b1", type: "debug", z: "b", ...place },
  { id: "a2", type: "broker", z: "a" },
];
const stored = document.map(({ credentials: _credentials, ...node }): FlowNode => node as FlowNode);

async function openDeployed(options: Parameters<typeof openFlows>[0] = {}): Promise<FlowsUnderTest> {
  const flows = await openFlows(options);
  expect((await flows.send("POST", "/flows", document)).status).toBe(204);
  return flows;
}

const etagOf = ({ store }: FlowsUnderTest): string => `"${store.active().rev}"`;

test("a flow is read with the entity tag of the active revision, and without credentials", async () => {
  await using flows = await openDeployed();
  const { rev } = flows.store.active();
  const reply = await flows.send("GET", "/flow/a");
  expect(reply.body).toEqual({
    id: "a",
    label: "A",
    disabled: false,
    env: [],
    locked: true,
    nodes: [{ id: "a1", type: "debug", z: "a", ...place, wires: [["b1"]] }],
    configs: [{ id: "a2", type: "broker", z: "a" }],
    rev,
  });
  expect(reply.headers["etag"]).toBe(etagOf(flows));
  const unchanged = await flows.send("GET", "/flow/a", undefined, { "if-none-match": etagOf(flows) });
  expect([unchanged.status, unchanged.body]).toEqual([304, undefined]);
  expect((await flows.send("GET", "/flow/b")).body).toMatchObject({ id: "b", label: 7, disabled: "no" });
  expect((await flows.send("GET", "/flow/global")).body).toEqual({
    id: "global",
    nodes: [],
    configs: [{ id: "c0", type: "broker" }],
    rev,
  });
});

test.each(["a", "b", "global"])("replacing the flow %s by itself changes nothing", async (id) => {
  await using flows = await openDeployed();
  const { credentials } = flows.store.active();
  const { body } = await flows.send("GET", `/flow/${id}`);
  expect((await flows.send("PUT", `/flow/${id}`, body)).status).toBe(200);
  expect(flows.store.active().flows.nodes).toEqual(stored);
  expect(flows.store.active().credentials).toEqual(credentials);
  expect(flows.store.active()).toMatchObject({ cause: "flow", deploymentType: "flows" });
});

test("a node in a subflow may be nested as deep as in a deployment", async () => {
  await using flows = await openFlows();
  let deep: JsonValue = {};
  for (let level = 2; level < maxNodeDepth; level++) {
    deep = { a: deep };
  }
  const nodes = [
    { id: "s", type: "subflow" },
    { id: "n", type: "debug", z: "s", ...place, deep },
  ];
  expect((await flows.send("POST", "/flows", nodes)).status).toBe(204);
  const { body } = await flows.send("GET", "/flow/global");
  expect((await flows.send("PUT", "/flow/global", body)).status).toBe(200);
  expect(flows.store.active().flows.nodes).toEqual(nodes);
  const tooDeep = JSON.parse(JSON.stringify(body).replace('{"a":', '{"a":{"a":').replace("}}", "}}}")) as unknown;
  expect((await flows.send("PUT", "/flow/global", tooDeep)).body).toEqual({
    code: "invalid_flows",
    message: expect.stringMatching(
      /^flow\.subflows\[0\]\.nodes\[0\]\.deep\.a.+: must not be nested deeper than 32 levels/,
    ),
  });
});

test("a new flow is appended under a new id, and its nodes keep theirs", async () => {
  await using flows = await openDeployed();
  const reply = await flows.send("POST", "/flow", {
    id: "ignored",
    rev: "ignored",
    label: "C",
    info: "new",
    nodes: [{ id: "c1", type: "debug", z: "a", ...place, credentials: { user: "c" } }],
    configs: [{ id: "c2", type: "broker" }],
  });
  const { rev } = flows.store.active();
  expect(reply).toMatchObject({ status: 200, headers: { "service-deployment-outcome": "running" } });
  expect(reply.body).toEqual({ id: expect.stringMatching(/^[0-9a-f]{16}$/), rev });
  const { id } = reply.body as { id: string };
  expect(flows.store.active().flows.nodes).toEqual([
    ...stored,
    { id, type: "tab", label: "C", info: "new" },
    { id: "c1", type: "debug", z: id, ...place },
    { id: "c2", type: "broker", z: id },
  ]);
  expect(flows.store.active().credentials).toEqual(sets({ a1: { user: "u", password: "p" }, c1: { user: "c" } }));
  const again = await flows.send("POST", "/flow", { nodes: [{ id: "c1", type: "debug" }] });
  expect([again.status, again.body]).toEqual([
    400,
    {
      code: "invalid_flows",
      message: 'flow.nodes[0].id: must be unique, and that of a node of another flow is "c1" too',
    },
  ]);
});

test("credentials in the map of a global-config node are merged", async () => {
  await using flows = await openDeployed();
  const put = (map: JsonObject) =>
    flows.send("PUT", "/flow/global", { configs: [{ id: "g", type: "global-config", credentials: { map } }] });
  await put({ KEY: "k", has_KEY: true, OTHER: "o", has_OTHER: true });
  expect(flows.store.active().credentials.get("g")).toEqual(new Map(Object.entries({ KEY: "k", OTHER: "o" })));
  await put({ KEY: "" });
  expect(flows.store.active().credentials.get("g")).toEqual(new Map([["OTHER", "o"]]));
  expect(await put({ KEY: 1 })).toMatchObject({
    status: 400,
    body: { code: "invalid_flows", message: "flow.configs[0].credentials.map.KEY: must be a string" },
  });
  expect(JSON.stringify((await flows.send("GET", "/flow/global")).body)).not.toContain("credentials");
});

test("credentials are merged, kept, and dropped with their node", async () => {
  await using flows = await openDeployed();
  const a1 = { id: "a1", type: "debug", ...place };
  const a3 = { id: "a3", type: "debug", ...place, credentials: { token: "t" } };
  await flows.send("PUT", "/flow/a", { nodes: [{ ...a1, credentials: { user: "", key: "k" } }, a3] });
  expect(flows.store.active().credentials).toEqual(sets({ a1: { password: "p", key: "k" }, a3: { token: "t" } }));
  await flows.send("PUT", "/flow/b", { nodes: [] });
  expect(flows.store.active().credentials).toEqual(sets({ a1: { password: "p", key: "k" }, a3: { token: "t" } }));
  await flows.send("PUT", "/flow/a", { nodes: [a1] });
  expect(flows.store.active().credentials).toEqual(sets({ a1: { password: "p", key: "k" } }));
  await flows.send("DELETE", "/flow/a");
  expect(flows.store.active().credentials).toEqual(sets({}));
});

test("a flow is deleted with its nodes, and links from other flows remain", async () => {
  await using flows = await openDeployed();
  const reply = await flows.send("DELETE", "/flow/b");
  expect(reply).toMatchObject({ status: 204, body: undefined, headers: { "service-deployment-outcome": "running" } });
  expect(flows.store.active().flows.nodes).toEqual(stored.filter(({ id }) => !id.startsWith("b")));
});

test("a flow is disabled and enabled", async () => {
  await using flows = await openDeployed();
  const read = () => flows.store.active().flows.nodes;
  const disabled = await flows.send("POST", "/flow/a:disable", {}, { "service-deployment-type": "nodes" });
  expect(disabled.body).toEqual({ id: "a", rev: flows.store.active().rev });
  expect(flows.store.active().deploymentType).toBe("nodes");
  const expected = (value: boolean) => stored.map((node) => (node.id === "a" ? { ...node, disabled: value } : node));
  expect(read()).toEqual(expected(true));
  await flows.send("POST", "/flow/a:enable");
  expect(read()).toEqual(expected(false));
});

test("an id may contain any character", async () => {
  await using flows = await openFlows();
  const id = "ü /%2F:enable?#";
  const path = `/flow/${encodeURIComponent(id)}`;
  await flows.send("POST", "/flows", [{ id, type: "tab" }]);
  expect((await flows.send("GET", path)).body).toMatchObject({ id });
  expect((await flows.send("PUT", path, { label: "x" })).body).toMatchObject({ id });
  expect((await flows.send("POST", `${path}:disable`)).body).toMatchObject({ id });
  expect(flows.store.active().flows.nodes).toEqual([{ id, type: "tab", label: "x", disabled: true }]);
  expect((await flows.send("DELETE", path)).status).toBe(204);
  expect(flows.store.active().flows.nodes).toEqual([]);
});

describe("rejects", () => {
  const notFound = { code: "not_found", message: 'there is no flow "x": no tab has this id' };
  const tooGlobal = {
    code: "invalid_argument",
    message: 'id: the flow "global" can be read and replaced only, since it has no tab',
  };
  const noBody = { code: "invalid_json", message: "the body is empty; a JSON document was expected" };
  const invalid = (message: string): object => ({ code: "invalid_flows", message });

  // Rejected requests change nothing, so that they share a service.
  let flows: FlowsUnderTest;
  beforeAll(async () => {
    flows = await openDeployed();
  });
  afterAll(() => flows?.[Symbol.asyncDispose]());

  test.each<[method: string, path: string, body: unknown, status: number, reply: object]>([
    ["GET", "/flow/x", undefined, 404, notFound],
    ["PUT", "/flow/x", { label: "" }, 404, notFound],
    ["DELETE", "/flow/x", undefined, 404, notFound],
    ["POST", "/flow/x:enable", undefined, 404, notFound],
    ["POST", "/flow/x:disable", {}, 404, notFound],
    ["DELETE", "/flow/global", undefined, 400, tooGlobal],
    ["POST", "/flow/global:enable", undefined, 400, tooGlobal],
    ["POST", "/flow/global:disable", undefined, 400, tooGlobal],
    ["PUT", "/flow/a", undefined, 400, noBody],
    ["PUT", "/flow/a", null, 400, invalid("flow: is missing")],
    ["POST", "/flow", undefined, 400, noBody],
    ["PUT", "/flow/a", { id: "b" }, 400, invalid('flow.id: must be "a", the id of the flow in the request, or absent')],
    ["PUT", "/flow/a", { nodes: [{ type: "t" }] }, 400, invalid("flow.nodes[0].id: is missing")],
    ["PUT", "/flow/a", { nodes: [{ id: "", type: "t" }] }, 400, invalid("flow.nodes[0].id: must not be empty")],
    ["PUT", "/flow/a", { nodes: null }, 400, invalid("flow.nodes: must be an array, not null")],
  ])("%s %s %j", async (method, path, body, status, expected) => {
    const { rev } = flows.store.active();
    const reply = await flows.send(method, path, body);
    expect([reply.status, reply.body]).toEqual([status, expected]);
    expect(flows.store.active().rev).toBe(rev);
  });

  test("a reload", async () => {
    const reply = await flows.send("DELETE", "/flow/a", undefined, { "service-deployment-type": "reload" });
    expect(reply).toMatchObject({ status: 400, body: { code: "invalid_deployment_type" } });
  });
});

describe("the revision that must be active", () => {
  const changes: readonly [method: string, path: string, body: unknown][] = [
    ["POST", "/flow", { label: "new" }],
    ["PUT", "/flow/a", { label: "new" }],
    ["POST", "/flow/a:disable", {}],
    ["DELETE", "/flow/a", undefined],
  ];

  test.each(changes)("%s %s has If-Match", async (method, path, body) => {
    await using flows = await openDeployed();
    const etag = etagOf(flows);
    await flows.send("POST", "/flow/b:disable");
    const { rev } = flows.store.active();
    const late = await flows.send(method, path, body, { "if-match": etag });
    expect(late).toMatchObject({ status: 412, body: { code: "precondition_failed", active: { rev, cause: "flow" } } });
    expect(flows.store.active().rev).toBe(rev);
    const { status } = await flows.send(method, path, body, { "if-match": etagOf(flows) });
    expect([200, 204]).toContain(status);
    expect(flows.store.active().parent).toBe(rev);
  });

  test("a flow that was read has it in its body", async () => {
    await using flows = await openDeployed();
    const { body } = await flows.send("GET", "/flow/a");
    await flows.send("POST", "/flow/b:disable");
    const { rev } = flows.store.active();
    const late = await flows.send("PUT", "/flow/a", body);
    expect(late).toMatchObject({ status: 409, body: { code: "version_mismatch", active: { rev } } });
    const differing = await flows.send("PUT", "/flow/a", body, { "if-match": etagOf(flows) });
    expect([differing.status, differing.body]).toEqual([
      400,
      { code: "invalid_argument", message: "flow.rev: must be the `rev` of the request, or absent" },
    ]);
    expect((await flows.send("PUT", "/flow/a", { ...(body as object), rev })).status).toBe(200);
  });

  test("without it, concurrent changes of different flows all survive", async () => {
    await using flows = await openDeployed();
    const replies = await Promise.all([
      flows.send("PUT", "/flow/a", { label: "new A" }),
      flows.send("PUT", "/flow/b", { label: "new B" }),
      flows.send("PUT", "/flow/global", { configs: [{ id: "c0", type: "new" }] }),
      flows.send("POST", "/flow", { label: "C" }),
      flows.send("POST", "/flow", { label: "D" }),
    ]);
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(new Set(replies.map(({ body }) => (body as { rev: string }).rev)).size).toBe(5);
    const created = replies.slice(3).map(({ body }) => (body as { id: string }).id);
    const { nodes } = flows.store.active().flows;
    expect(nodes.slice(0, 3)).toEqual([
      { id: "c0", type: "new" },
      { id: "a", type: "tab", label: "new A" },
      { id: "b", type: "tab", label: "new B" },
    ]);
    expect(new Map(nodes.slice(3).map(({ id, label }) => [label, id]))).toEqual(
      new Map([
        ["C", created[0]],
        ["D", created[1]],
      ]),
    );
  });

  test("without it, a flow that another change has deleted is not found", async () => {
    let isFirst = true;
    await using flows = await openDeployed({
      wrap: (store) => ({
        ...store,
        async commit(draft, signal) {
          if (isFirst && draft.cause === "flow") {
            isFirst = false;
            await flows.send("DELETE", "/flow/a");
          }
          return store.commit(draft, signal);
        },
      }),
    });
    const reply = await flows.send("PUT", "/flow/a", { label: "late" });
    expect(reply).toMatchObject({ status: 404, body: { code: "not_found" } });
    expect(flows.store.active().flows.nodes.map(({ id }) => id)).toEqual(["c0", "b", "b1"]);
  });
});

describe("a request that is repeated with its idempotency key", () => {
  const once = { "idempotency-key": "k" };

  test("does not delete twice", async () => {
    await using flows = await openDeployed();
    const first = await flows.send("DELETE", "/flow/a", undefined, once);
    const { rev } = flows.store.active();
    const second = await flows.send("DELETE", "/flow/a", undefined, once);
    expect([first.status, second.status, flows.store.active().rev]).toEqual([204, 204, rev]);
    const other = await flows.send("DELETE", "/flow/b", undefined, once);
    expect(other).toMatchObject({ status: 422, body: { code: "idempotency_key_reused" } });
    expect((await flows.send("DELETE", "/flow/a", undefined, { "idempotency-key": "l" })).status).toBe(404);
  });

  test.each([[[{ id: "n", type: "t" }]], [[]]])("creates one flow with %j, and returns its id again", async (nodes) => {
    await using flows = await openDeployed();
    const flow = { label: "new", nodes };
    const first = await flows.send("POST", "/flow", flow, once);
    expect((await flows.send("POST", "/flow", flow, once)).body).toEqual(first.body);
    await flows.send("POST", "/flow", { label: "another" });
    expect((await flows.send("POST", "/flow", flow, once)).body).toEqual(first.body);
    const labels = flows.store.active().flows.nodes.flatMap(({ type, label }) => (type === "tab" ? [label] : []));
    expect(labels).toEqual(["A", 7, "new", "another"]);
  });

  test("replaces a flow once", async () => {
    await using flows = await openDeployed();
    const first = await flows.send("PUT", "/flow/a", { label: "first" }, once);
    await flows.send("PUT", "/flow/a", { label: "second" });
    expect((await flows.send("PUT", "/flow/a", { label: "first" }, once)).body).toEqual(first.body);
    expect(flows.store.active().flows.nodes[1]).toMatchObject({ label: "second" });
    expect((await flows.send("PUT", "/flow/b", { label: "first" }, once)).status).toBe(422);
  });
});

test.each([{ nodes: [] }, {}, { id: "a" }])("a flow is emptied by %j", async (flow) => {
  await using flows = await openDeployed();
  expect((await flows.send("PUT", "/flow/a", flow)).status).toBe(200);
  expect(flows.store.active().flows.nodes).toEqual([stored[0], { id: "a", type: "tab" }, stored[2], stored[4]]);
});
