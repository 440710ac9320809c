import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DeploymentErrorReason, DeploymentErrorSchema, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { RevisionsService, RevisionView } from "../../gen/flowgate/v1/revisions_pb.ts";
import { NodeChange } from "../../gen/flowgate/v1/diff_pb.ts";
import { deploy, tryDeploy } from "./deploy.ts";
import { endpoint, functionNode, installReporter, type Node, reporter, tab } from "./flow-builders.ts";
import { bearer, json, type Reply, v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService } from "./service.ts";
import { login, user } from "./users.ts";

const secret = "canary-of-a-credential";

let service: Service;
const tokens: Record<string, Record<string, string>> = {};

beforeAll(async () => {
  const users = [user("ada", "*"), user("bob", "*"), user("reader", "revisions.read"), user("writer", "flows.write")];
  service = await startService({
    config: {
      adminAuth: { type: "credentials", users },
      runtime: { deadlineMs: 8_000, restart: { backoffMs: 50, maxBackoffMs: 100, safeModeAfter: 2 } },
    },
    prepare: installReporter,
  });
  for (const { username, permissions } of users) {
    tokens[username] = bearer(await login(service, { username, scope: String(permissions) }));
  }
});
afterAll(() => service?.[Symbol.asyncDispose]());

type Json = { [key: string]: unknown };

async function send(method: string, path: string, { as = "ada", headers = {}, body }: Sent = {}): Promise<Reply> {
  return service.send(method, path, { headers: { ...tokens[as], ...json, ...headers }, body: body ?? "" });
}
type Sent = { readonly as?: string; readonly headers?: Record<string, string>; readonly body?: string };

async function get(path: string): Promise<Json> {
  const reply = await send("GET", path);
  expect({ status: reply.status, body: reply.body }).toMatchObject({ status: 200 });
  return reply.json() as Json;
}

function deployAs(username: string, flows: readonly Node[], headers: Record<string, string> = {}, type?: string) {
  return deploy(service, { flows }, type, { ...tokens[username], ...headers });
}

async function activeFlows(): Promise<unknown> {
  return (await send("GET", "/flows")).json();
}

const revision = async (rev: string): Promise<Json> => get(`/revisions/${rev}`);
const newest = async (): Promise<Json> => ((await get("/revisions?pageSize=1"))["revisions"] as Json[])[0] ?? {};

describe("the history", () => {
  test("has for each deployment who made it, when, from where, how, and what became of it", async () => {
    const before = Date.now();
    const first = await deployAs("ada", [tab("one")], { "service-deployment-message": "Begrüßung" }, "nodes");
    const second = await deployAs("bob", [tab("one"), { id: "x", type: "not-installed", z: "one", x: 1, y: 1 }]);
    const found = await revision(first);
    expect(found).toEqual({
      rev: first,
      parent: expect.any(String) as string,
      createTime: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      user: "ada",
      clientAddress: "127.0.0.1",
      protocol: "rest",
      requestId: expect.any(String) as string,
      deploymentType: "nodes",
      cause: "deployment",
      message: "Begrüßung",
      outcome: "running",
      nodeCount: 1,
      sizeBytes: JSON.stringify([tab("one")]).length,
    });
    expect(Date.parse(String(found["createTime"]))).toBeGreaterThanOrEqual(before);
    expect(await revision(second)).toMatchObject({
      active: true,
      parent: first,
      user: "bob",
      deploymentType: "full",
      outcome: "failed",
      outcomeMessage: "missing node types: not-installed",
      missingTypes: ["not-installed"],
    });
  });

  test.each(rpcProtocolNames)("is the same over %s as over REST", async (name) => {
    const transport = rpcProtocols[name](service.url);
    const listed = await call(transport, RevisionsService.method.listRevisions, { pageSize: 3 }, tokens["ada"]);
    const overRest = (await get("/revisions?pageSize=3")) as { revisions: Json[]; nextPageToken?: string };
    expect(listed).toMatchObject({
      message: {
        nextPageToken: overRest.nextPageToken ?? "",
        revisions: overRest.revisions.map(({ rev, user: by = "", message = "" }) => ({ rev, user: by, message })),
      },
    });
    const { rev } = await newest();
    const full = await call(
      transport,
      RevisionsService.method.getRevision,
      { rev: String(rev), view: RevisionView.FULL },
      tokens["ada"],
    );
    expect(full).toMatchObject({ message: { rev, flows: [{ id: "one", type: "tab" }, { id: "x" }] } });
    const unknown = await call(transport, RevisionsService.method.getRevision, { rev: "none" }, tokens["ada"]);
    expect(unknown).toMatchObject({ refused: { code: Code.NotFound, reason: "not_found" } });
  });

  test("is listed in pages and by filters", async () => {
    const marker = String(Date.now());
    await deployAs("bob", [tab(marker)], {}, "flows");
    await deployAs("ada", [tab(marker)], {}, "flows");
    const all: unknown[] = [];
    let token = "";
    do {
      const page = (await get(`/revisions?pageSize=2&pageToken=${token}`)) as {
        revisions: Json[];
        nextPageToken?: string;
      };
      expect(page.revisions.length).toBeLessThanOrEqual(2);
      all.push(...page.revisions.map(({ rev }) => rev));
      token = page.nextPageToken ?? "";
    } while (token !== "");
    const once = (await get("/revisions?page_size=1000"))["revisions"] as Json[];
    expect(all).toEqual(once.map(({ rev }) => rev));

    const listed = async (query: string) => (await get(`/revisions?${query}`))["revisions"] as Json[];
    expect((await listed("user=bob&deploymentType=flows")).map(({ user: by }) => by)).toEqual(["bob"]);
    expect(await listed("outcome=failed")).toHaveLength(1);
    expect(await listed(`startTime=2999-01-01T00:00:00Z`)).toEqual([]);
    expect(await listed(`endTime=2999-01-01T00:00:00Z&user=ada`)).not.toEqual([]);
  });

  test.each([
    ["pageSize=-1", "pageSize: must not be negative"],
    ["pageToken=x", "pageToken: must be the nextPageToken of the previous page"],
    ["outcome=undone", "outcome: revisions have one of pending, running, failed, crashed, replaced"],
  ])("rejects ?%s", async (query, message) => {
    const reply = await send("GET", `/revisions?${query}`);
    expect({ status: reply.status, body: reply.json() }).toEqual({
      status: 400,
      body: { code: "invalid_argument", message },
    });
  });

  test("keeps messages and pins that are changed later", async () => {
    const { rev } = await newest();
    const patch = (body: object) => send("PATCH", `/revisions/${String(rev)}`, { body: JSON.stringify(body) });
    expect((await patch({ message: "before the migration", pinned: true })).json()).toMatchObject({
      rev,
      message: "before the migration",
      pinned: true,
    });
    expect((await patch({ message: "" })).json()).not.toHaveProperty("message");
    expect(await revision(String(rev))).toMatchObject({ pinned: true });
    expect((await get("/revisions?pinned=true"))["revisions"]).toMatchObject([{ rev }]);
    expect((await patch({ message: "x".repeat(1001) })).status).toBe(400);
    expect((await send("PATCH", "/revisions/none", { body: "{}" })).status).toBe(404);
  });

  test.each([
    ["GET", "/revisions", "reader", 200],
    ["GET", "/revisions", "writer", 401],
    ["PATCH", "/revisions/none", "reader", 401],
    ["POST", "/revisions/none:restore", "reader", 401],
    ["POST", "/revisions/none:restore", "writer", 404],
    ["POST", "/flows:undo", "reader", 401],
  ])("%s %s is answered to the user %s with %i", async (method, path, as, status) => {
    const reply = await send(method, path, { as, ...(method === "PATCH" && { body: "{}" }) });
    expect(reply.status).toBe(status);
  });
});

describe("restoring", () => {
  const withCredentials = [tab("T"), { ...reporter("r", "T"), credentials: { password: secret } }];
  const reported = async () => JSON.parse(await service.get("/reporter", tokens["ada"])) as { credentials: object };

  test("undo brings the parent back, with its credentials, as a new revision", async () => {
    const good = await deployAs("ada", withCredentials);
    const bad = await deployAs("bob", [tab("other")]);
    const reply = await send("POST", "/flows:undo", { headers: { "service-deployment-message": "Friday" } });
    expect(reply.status).toBe(200);
    expect(reply.headers["service-deployment-outcome"]).toBe("running");
    const { rev } = reply.json() as { rev: string };
    expect(await revision(rev)).toMatchObject({
      parent: bad,
      cause: "undo",
      restoredRev: good,
      user: "ada",
      message: "Friday",
      active: true,
    });
    expect(await activeFlows()).toEqual([tab("T"), reporter("r", "T")]);
    expect((await reported()).credentials).toEqual({ "the r": { password: secret } });
  });

  test("undo is guarded by the revision that it names", async () => {
    const active = String((await newest())["rev"]);
    for (const guard of [{ headers: { "if-match": '"other"' } }, { body: '{"rev": "other"}' }]) {
      const reply = await send("POST", "/flows:undo", guard);
      expect(reply.status).toBe("headers" in guard ? 412 : 409);
      expect(reply.json()).toMatchObject({ active: { rev: active, user: "ada" } });
    }
    expect((await newest())["rev"]).toBe(active);
    expect((await send("POST", "/flows:undo", { body: JSON.stringify({ rev: active }) })).status).toBe(200);
  });

  test.each(rpcProtocolNames.filter((name) => name !== "Connect over GET"))(
    "any earlier revision can be restored over %s",
    async (name) => {
      const transport = rpcProtocols[name](service.url);
      const target = await deployAs("ada", withCredentials);
      const parent = await deployAs("ada", [tab(name)]);
      const restored = await call(
        transport,
        RevisionsService.method.restoreRevision,
        { rev: target, activeRev: parent, message: "back" },
        tokens["bob"],
      );
      expect(restored).toMatchObject({ message: { outcome: 1 } });
      expect(await newest()).toMatchObject({
        parent,
        cause: "restore",
        restoredRev: target,
        user: "bob",
        message: "back",
      });
      const late = await call(
        transport,
        RevisionsService.method.restoreRevision,
        { rev: target, activeRev: parent },
        tokens["bob"],
      );
      expect(late).toMatchObject({ refused: { code: Code.Aborted, reason: "version_mismatch" } });
      const undone = await call(transport, FlowsService.method.undoFlows, {}, tokens["bob"]);
      expect(undone).toMatchObject({ message: { outcome: 1 } });
      expect(await activeFlows()).toEqual([tab(name)]);
    },
  );

  test("an undo can't have the deployment type reload", async () => {
    const reply = await send("POST", "/flows:undo", { headers: { "service-deployment-type": "reload" } });
    expect(reply.json()).toMatchObject({ code: "invalid_deployment_type" });
  });

  test("GET /flows?rev= reads a revision that caches may keep", async () => {
    const rev = await deployAs("ada", [tab("kept")]);
    await deployAs("ada", [tab("newer")]);
    const reply = await send("GET", `/flows?rev=${rev}`, { headers: v2 });
    expect(reply.json()).toEqual({ flows: [tab("kept")], rev });
    expect(reply.headers).toMatchObject({
      etag: `"${rev}"`,
      "cache-control": "private, max-age=31536000, immutable",
    });
    const again = await send("GET", `/flows?rev=${rev}`, { headers: { ...v2, "if-none-match": `"${rev}"` } });
    expect(again.status).toBe(304);
    expect((await send("GET", "/flows")).headers["cache-control"]).toBe("no-store");
    expect((await send("GET", "/flows?rev=none")).json()).toMatchObject({ code: "not_found" });
  });

  test("no response contains a credential", async () => {
    const target = await deployAs("ada", withCredentials);
    for (const path of [`/revisions/${target}?view=FULL`, `/flows?rev=${target}`, "/revisions"]) {
      expect((await send("GET", path)).body).not.toContain(secret);
    }
    expect(service.log()).not.toContain(secret);
  });
});

describe("what a deployment has done", () => {
  const nodes = [tab("T"), functionNode("f", { z: "T" }), functionNode("g", { z: "T" })];
  const changed = nodes.map((node) => (node.id === "f" ? { ...node, func: "return null;" } : node));
  const restarts = async (rev: string) =>
    ((await get(`/revisions/${rev}:diff?restarts=true`))["nodes"] as Json[] | undefined)?.map(({ id, action }) => [
      id,
      action,
    ]);

  test("is in the diff with its parent, if the request asks for it", async () => {
    await deployAs("ada", nodes);
    const partial = await deployAs("ada", changed, {}, "nodes");
    expect(await restarts(partial)).toEqual([["f", "restart"]]);
    expect(await get(`/revisions/${partial}:diff`)).not.toHaveProperty("nodes");
    const full = await deployAs("ada", changed);
    expect(await restarts(full)).toEqual([
      ["f", "restart"],
      ["g", "restart"],
    ]);
    const incomplete = await deployAs("ada", [...changed, { id: "m", type: "not-installed", z: "T", x: 1, y: 1 }]);
    expect(await restarts(incomplete)).toEqual([
      ["f", "stop"],
      ["g", "stop"],
    ]);
  });

  test("is only known for the parent", async () => {
    const rev = await deployAs("ada", nodes);
    const reply = await send("GET", `/revisions/${rev}:diff?restarts=true&base=${rev}`);
    expect(reply.json()).toMatchObject({ code: "invalid_argument" });
  });
});

describe("conditions", () => {
  const past = "Sat, 01 Jan 2000 00:00:00 GMT";
  const future = "Fri, 01 Jan 2100 00:00:00 GMT";
  const post = (headers: Record<string, string>) =>
    tryDeploy(service, { flows: [tab("conditional")] }, "full", { ...tokens["ada"], ...headers });

  test.each([
    ["If-Match", () => ({ "if-match": '"other"' }), 412],
    ["If-Match, which holds", (rev: string) => ({ "if-match": `"${rev}"` }), 200],
    ["If-None-Match: *", () => ({ "if-none-match": "*" }), 412],
    ["If-None-Match", (rev: string) => ({ "if-none-match": `"a", W/"${rev}"` }), 412],
    ["If-None-Match, which holds", () => ({ "if-none-match": '"other"' }), 200],
    ["If-Unmodified-Since", () => ({ "if-unmodified-since": past }), 412],
    ["If-Unmodified-Since, which holds", () => ({ "if-unmodified-since": future }), 200],
    ["If-Unmodified-Since, which isn't a date", () => ({ "if-unmodified-since": "2001" }), 200],
    [
      "If-Unmodified-Since beside If-Match, which wins",
      (rev: string) => ({ "if-match": `"${rev}"`, "if-unmodified-since": past }),
      200,
    ],
  ] as const)("%s", async (_, headers, status) => {
    const rev = await deployAs("ada", [tab("before")]);
    const reply = await post(headers(rev));
    expect(reply.status).toBe(status);
    const isRejected = status === 412;
    expect(reply.body.includes('"precondition_failed"')).toBe(isRejected);
    expect(await activeFlows()).toEqual([tab(isRejected ? "before" : "conditional")]);
  });

  test("must be valid", async () => {
    const reply = await post({ "if-none-match": "abc" });
    expect([reply.status, reply.json()]).toEqual([
      400,
      {
        code: "invalid_argument",
        message: 'If-None-Match: must be * or a list of entity tags, such as "abc"',
      },
    ]);
  });

  test("apply to a reload", async () => {
    const reload = (headers: Record<string, string>) =>
      tryDeploy(service, { flows: [] }, "reload", { ...tokens["ada"], ...headers });
    expect((await reload({ "if-match": '"other"' })).status).toBe(412);
    expect((await reload({ "if-none-match": "*" })).status).toBe(412);
    expect((await reload({})).status).toBe(200);
  });

  test("the rev of a body is a version mismatch, which describes the active revision", async () => {
    const rev = await deployAs("bob", [tab("theirs")], { "service-deployment-message": "mine" });
    const reply = await tryDeploy(service, { flows: [], rev: "other" }, "full", tokens["ada"]);
    expect(reply.status).toBe(409);
    expect(reply.json()).toEqual({
      code: "version_mismatch",
      message: `rev: the active revision is "${rev}": read it, resolve the differences and deploy again`,
      active: expect.objectContaining({ rev, user: "bob", message: "mine", active: true }) as unknown,
    });
    expect(reply.body).not.toContain("127.0.0.1");
  });
});

describe("concurrent deployments", () => {
  const labelled = (id: string, label: string): Node => ({ ...tab(id), label });
  const both = [labelled("a", "a"), labelled("b", "b")];
  const merging = { "service-deployment-merge": "true" };
  const attempt = (flows: readonly Node[], rev: string, headers: Record<string, string> = {}) =>
    tryDeploy(service, { flows, rev }, "full", { ...tokens["ada"], ...headers });

  test("a conflict describes what both changed", async () => {
    const rev = await deployAs("ada", both);
    await deployAs("bob", [labelled("a", "a"), labelled("b", "theirs")]);
    const reply = await attempt([labelled("a", "mine"), labelled("b", "b")], rev);
    expect(reply.status).toBe(409);
    const changes = [
      { nodeId: "a", type: "tab", name: "mine", yours: "changed" },
      { nodeId: "b", type: "tab", name: "b", theirs: "changed" },
    ];
    expect(reply.json()).toMatchObject({ code: "version_mismatch", active: { user: "bob" }, changes, changeCount: 2 });
  });

  test("a conflict is a typed detail over RPC", async () => {
    const rev = await deployAs("ada", both);
    await deployAs("bob", [labelled("b", "b")]);
    const client = createClient(FlowsService, rpcProtocols.gRPC(service.url));
    const error: unknown = await client
      .setFlows({ flows: [{ id: "a", type: "tab" }], rev, merge: true }, { headers: tokens["ada"] ?? {} })
      .catch((reason: unknown) => reason);
    const [detail] = ConnectError.from(error).findDetails(DeploymentErrorSchema);
    expect(detail).toMatchObject({
      code: DeploymentErrorReason.MERGE_CONFLICT,
      active: { user: "bob" },
      changeCount: 2,
      changes: [
        { nodeId: "a", yours: NodeChange.CHANGED, theirs: NodeChange.REMOVED },
        { nodeId: "b", yours: NodeChange.REMOVED, theirs: NodeChange.UNSPECIFIED },
      ],
    });
  });

  test("changes of different nodes are merged if the request asks for it, credentials included", async () => {
    const rev = await deployAs("ada", [...both, { ...reporter("r", "b"), credentials: { user: "one" } }]);
    const theirs = await deployAs("bob", [
      labelled("a", "a"),
      labelled("b", "theirs"),
      { ...reporter("r", "b"), credentials: { user: "two" } },
    ]);
    const reply = await attempt([labelled("a", "mine"), labelled("b", "b"), reporter("r", "b")], rev, merging);
    expect(reply.status).toBe(200);
    expect(reply.headers["service-deployment-merged-rev"]).toBe(theirs);
    expect(reply.json()).toEqual({
      rev: expect.any(String) as string,
      mergedChanges: [
        { nodeId: "a", type: "tab", name: "mine", yours: "changed" },
        { nodeId: "b", type: "tab", name: "b", theirs: "changed" },
        { nodeId: "r", type: "reporter", name: "the r", theirs: "changed" },
      ],
    });
    expect(await activeFlows()).toEqual([labelled("a", "mine"), labelled("b", "theirs"), reporter("r", "b")]);
    expect(JSON.parse(await service.get("/reporter", tokens["ada"]))).toMatchObject({
      credentials: { "the r": { user: "two" } },
    });
    expect(await newest()).toMatchObject({ cause: "merge", parent: theirs });
  });

  test("changes of the same node are not merged", async () => {
    const rev = await deployAs("ada", both);
    const theirs = await deployAs("bob", [labelled("a", "theirs"), labelled("b", "b")]);
    const reply = await attempt([labelled("a", "mine"), labelled("b", "b")], rev, merging);
    expect(reply.status).toBe(409);
    expect(reply.json()).toMatchObject({
      code: "merge_conflict",
      message: expect.stringContaining('merge: node "a": ') as string,
      active: { rev: theirs },
      changes: [{ nodeId: "a", conflict: expect.stringContaining("in different ways") as string }],
    });
    expect((await newest())["rev"]).toBe(theirs);
  });

  test("a repeated merge with an idempotency key makes one revision", async () => {
    const rev = await deployAs("ada", both);
    await deployAs("bob", [labelled("a", "a"), labelled("b", "theirs")]);
    const send_ = () =>
      attempt([labelled("a", "mine"), labelled("b", "b")], rev, { ...merging, "idempotency-key": "merge 1" });
    const first = (await send_()).json() as { rev: string };
    expect((await send_()).json()).toMatchObject({ rev: first.rev });
    expect(await newest()).toMatchObject({ rev: first.rev, cause: "merge" });
  });

  test("many at once are merged into one revision after another", async () => {
    const rev = await deployAs("ada", both);
    const names = ["c", "d", "e", "f", "g"];
    const replies = await Promise.all(names.map((name) => attempt([...both, tab(name)], rev, merging)));
    expect(replies.map(({ status }) => status)).toEqual(names.map(() => 200));
    const ids = ((await activeFlows()) as Node[]).map(({ id }) => id);
    expect(ids.toSorted()).toEqual(["a", "b", ...names]);
  });
});

describe("an idempotency key", () => {
  const key = (value: string) => ({ "idempotency-key": value });

  test("makes a repeated deployment one revision, whatever its rev", async () => {
    const base = await deployAs("ada", [tab("base")]);
    const send_ = (headers = {}) =>
      tryDeploy(service, { flows: [tab("once")], rev: base }, "full", { ...tokens["ada"], ...key("k1"), ...headers });
    const first = await send_();
    const again = await send_();
    expect(first.status).toBe(200);
    expect([again.status, again.body]).toEqual([200, first.body]);
    expect(again.headers["service-deployment-outcome"]).toBe("running");
    await deployAs("bob", [tab("later")]);
    expect((await send_()).body).toBe(first.body);
    expect(await activeFlows()).toEqual([tab("later")]);
    expect((await send_(tokens["bob"])).status).toBe(409);
  });

  test("is looked up before the conditions of a repeated request", async () => {
    const headers = { "if-unmodified-since": new Date(Date.now() + 1_000).toUTCString(), ...key("k4") };
    const first = await deployAs("ada", [tab("dated")], headers);
    await deployAs("bob", [tab("later")]);
    const past = { ...headers, "if-unmodified-since": "Sat, 01 Jan 2000 00:00:00 GMT" };
    expect(await deployAs("ada", [tab("dated")], past)).toBe(first);
  });

  test("is rejected for another request", async () => {
    await deployAs("ada", [tab("a")], key("k2"));
    for (const other of [
      () => deployAs("ada", [tab("b")], key("k2")),
      () => deployAs("ada", [tab("a")], key("k2"), "nodes"),
    ]) {
      await expect(other()).rejects.toThrow(/422.*idempotency_key_reused/);
    }
    await expect(deployAs("ada", [], key("x".repeat(256)))).rejects.toThrow(/400.*1 to 255 characters/);
  });

  test("is rejected if there are two", async () => {
    // Two headers with the same name are joined like this.
    const reply = await send("DELETE", "/flow/none", { headers: key("a, b") });
    expect([reply.status, reply.json()]).toEqual([
      400,
      { code: "invalid_argument", message: "Idempotency-Key: must be a single key, without a comma" },
    ]);
  });

  test("makes a repeated undo one revision, over REST and RPC", async () => {
    await deployAs("ada", [tab("good")]);
    await deployAs("ada", [tab("bad")]);
    const undo = () => send("POST", "/flows:undo", { headers: key("k3") });
    const first = await undo();
    expect((await undo()).body).toBe(first.body);
    const overRpc = await call(
      rpcProtocols.gRPC(service.url),
      FlowsService.method.undoFlows,
      { idempotencyKey: "k3" },
      tokens["ada"],
    );
    expect(overRpc).toMatchObject({ message: first.json() as object });
    expect(await activeFlows()).toEqual([tab("good")]);
  });
});

describe("a safe deployment", () => {
  const undoing = (seconds: number) => ({
    "service-deployment-on-failure": "undo",
    "service-deployment-wait": String(seconds),
  });
  const failing: [name: string, nodes: Node[], outcome: string][] = [
    ["lacks a node type", [{ id: "m", type: "not-installed", z: "F", x: 1, y: 1 }], "failed"],
    ["logs an error", [functionNode("e", { z: "F", initialize: "throw new Error('start')" })], "failed"],
    [
      "crashes",
      [functionNode("c", { z: "F", initialize: "setTimeout(() => void Promise.reject(new Error('late')), 50)" })],
      "crashed",
    ],
    ["hangs", [functionNode("h", { z: "F", initialize: "for (;;) {}" })], "crashed"],
  ];

  test.each(failing)(
    "that %s is undone, and the previous flows respond again",
    async (_, nodes, outcome) => {
      const good = await deployAs("ada", endpoint("/alive", "msg.payload = 'yes'"));
      const reply = await tryDeploy(service, { flows: [tab("F"), ...nodes] }, "full", {
        ...tokens["bob"],
        ...undoing(3),
      });
      expect(reply.status).toBe(200);
      expect(reply.headers["service-deployment-outcome"]).toBe("undone");
      const failed = String(reply.headers["service-deployment-undone-rev"]);
      const { rev } = reply.json() as { rev: string };
      expect(await service.get("/alive", tokens["ada"])).toBe("yes");
      expect(await revision(rev)).toMatchObject({
        active: true,
        cause: "automatic_undo",
        restoredRev: good,
        user: "bob",
      });
      expect(await revision(failed)).toMatchObject({ outcome, parent: good });
      expect((await send("POST", "/flows:undo")).json()).toMatchObject({ code: "nothing_to_undo" });
    },
    60_000,
  );

  test("is undone without waiting if it can't be started", async () => {
    await deployAs("ada", [tab("good")]);
    const reply = await tryDeploy(service, { flows: [{ id: "m", type: "not-installed" }] }, "full", {
      ...tokens["ada"],
      ...undoing(0),
    });
    expect(reply.headers["service-deployment-outcome"]).toBe("undone");
  });

  test("keeps what flows throw out of the history", async () => {
    const crash = functionNode("c", { z: "F", initialize: `void Promise.reject(new Error("${secret}"));` });
    await deployAs("ada", [tab("good")]);
    await tryDeploy(service, { flows: [tab("F"), crash] }, "full", { ...tokens["ada"], ...undoing(3) });
    const { body } = await send("GET", "/revisions?pageSize=2");
    expect(body).toContain("it crashed; the log has the error");
    expect(body).not.toContain(secret);
  });

  test("that runs is kept", async () => {
    const rev = await deployAs("ada", [tab("fine")], undoing(1));
    expect(await newest()).toMatchObject({ rev, outcome: "running" });
  });

  test("that is only awaited is kept, and reports the failure", async () => {
    const reply = await tryDeploy(service, { flows: [tab("F"), ...(failing[2]?.[1] ?? [])] }, "full", {
      ...tokens["ada"],
      "service-deployment-wait": "3",
    });
    expect(reply.headers["service-deployment-outcome"]).toBe("crashed");
    expect(await activeFlows()).toHaveLength(2);
  });

  test("over RPC has its outcome and the failed revision as fields", async () => {
    await deployAs("ada", [tab("good")]);
    const outcome = await call(
      rpcProtocols.gRPC(service.url),
      FlowsService.method.setFlows,
      { flows: [{ id: "m", type: "not-installed" }], onFailure: 2, wait: 2 },
      tokens["ada"],
    );
    expect(outcome).toMatchObject({ message: { outcome: 6, missingTypes: ["not-installed"] } });
    const { undoneRev } = (outcome as { message: { undoneRev: string } }).message;
    expect((await revision(undoneRev))["outcome"]).toBe("failed");
  });

  test("waits at most ten minutes", async () => {
    const reply = await tryDeploy(service, { flows: [] }, "full", {
      ...tokens["ada"],
      "service-deployment-wait": "601",
    });
    expect(reply.json()).toMatchObject({ code: "invalid_argument", message: "wait: must be at most 600 seconds" });
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
      ["deployment", "crashed"],
      ["deployment", "running"],
      ["deployment", "running"],
    ]);
    expect(revisions[0]).toMatchObject({ restoredRev: good });
  });
  await first[Symbol.asyncDispose]();
}, 60_000);
