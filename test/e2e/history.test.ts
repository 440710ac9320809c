import { Code } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { DeploymentOutcome, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { RevisionsService, RevisionView } from "../../gen/flowgate/v1/revisions_pb.ts";
import { counting, endpoint, functionNode, reporter, startsEndpoint, tab } from "./flow-builders.ts";
import { deploy } from "./deploy.ts";
import { v2 } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { type Json, useOperators } from "./operators.ts";

const secret = "canary-of-a-credential";
const { tokens, running, send, get, deployAs, activeFlows, revision, newest } = useOperators();

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
      tokenId: expect.stringMatching(/^[\da-f]{24}$/) as string,
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

  test("names the token of a program besides the user", async () => {
    const created = await send("POST", "/tokens", { body: JSON.stringify({ name: "ci", scope: "flows.write" }) });
    const { token, accessToken } = created.json() as { token: { id: string }; accessToken: string };
    await deploy(running(), { flows: [tab("one")] }, "full", { authorization: `Bearer ${accessToken}` });
    const named = { user: "ada", tokenId: token.id, tokenName: "ci" };
    expect(await newest()).toMatchObject(named);
    const { entries } = (await get("/audit?kind=deployment&pageSize=1")) as { entries: Json[] };
    expect(entries).toMatchObject([named]);
  });

  test("is the same over gRPC as over REST", async () => {
    const transport = rpcProtocols.gRPC(running().url);
    await deployAs("ada", [tab("one"), { id: "x", type: "comment", z: "one", x: 1, y: 1 }]);
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
    ["outcome=crashed", "outcome: must be one of running, failed, pending, replaced, undone, stopped, degraded"],
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
  const reported = async () => JSON.parse(await running().get("/reporter", tokens["ada"])) as { credentials: object };

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

  test("any earlier revision can be restored over gRPC", async () => {
    const transport = rpcProtocols.gRPC(running().url);
    const target = await deployAs("ada", withCredentials);
    const parent = await deployAs("ada", [tab("parent")]);
    const restored = await call(
      transport,
      RevisionsService.method.restoreRevision,
      { rev: target, activeRev: parent, message: "back" },
      tokens["bob"],
    );
    expect(restored).toMatchObject({ message: { outcome: DeploymentOutcome.RUNNING } });
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
    expect(undone).toMatchObject({ message: { outcome: DeploymentOutcome.RUNNING } });
    expect(await activeFlows()).toEqual([tab("parent")]);
  });

  test.each(["nodes", "flows", "full"])("undo restarts what the deployment of type %s has restarted", async (type) => {
    const changed = (name: string) => [tab("T"), counting("kept", "T"), counting("changed", "T", { name })];
    const starts = async () => JSON.parse(await running().get("/starts", tokens["ada"])) as Record<string, number>;
    await deployAs("ada", [...startsEndpoint, ...changed("before")]);
    const bad = await deployAs("ada", [...startsEndpoint, ...changed("after")], {}, type);
    const before = await starts();
    const request = { headers: { "idempotency-key": `"undo ${type}"` }, body: JSON.stringify({ rev: bad }) };
    const undone = await send("POST", "/flows:undo", request);
    expect(await revision((undone.json() as { rev: string }).rev)).toMatchObject({ deploymentType: type });
    const after = await starts();
    const restarts = { kept: type === "full" ? 1 : 0, changed: 1 };
    expect([after["kept"], after["changed"]]).toEqual([
      (before["kept"] ?? 0) + restarts.kept,
      (before["changed"] ?? 0) + restarts.changed,
    ]);
    // A repeated request gets the same answer, and one with another type is another request.
    expect((await send("POST", "/flows:undo", request)).json()).toEqual(undone.json());
    const typed = { ...request, headers: { ...request.headers, "service-deployment-type": "full" } };
    expect((await send("POST", "/flows:undo", typed)).json()).toMatchObject({ code: "idempotency_key_reused" });
  });

  test("undo repairs flows that a deployment of changed nodes could not start", async () => {
    const alive = endpoint("/alive", "msg.payload = 'yes'");
    await deployAs("ada", alive);
    await deployAs("ada", [...alive, tab("F"), { id: "m", type: "not-installed", z: "F", x: 1, y: 1 }], {}, "nodes");
    expect((await newest())["outcome"]).toBe("failed");
    const reply = await send("POST", "/flows:undo");
    expect(reply.headers["service-deployment-outcome"]).toBe("running");
    expect(await newest()).toMatchObject({ deploymentType: "nodes" });
    expect(await running().get("/alive", tokens["ada"])).toBe("yes");
  });

  test("an undo can't have the deployment type reload", async () => {
    const reply = await send("POST", "/flows:undo", { headers: { "service-deployment-type": "reload" } });
    expect(reply.json()).toMatchObject({ code: "invalid_deployment_type" });
  });

  test("GET /flows?rev= reads a revision that caches may keep", async () => {
    const rev = await deployAs("ada", [tab("kept")]);
    await deployAs("ada", [tab("newer")]);
    const reply = await send("GET", `/flows?rev=${rev}`, { headers: v2 });
    expect(reply.json()).toEqual({ flows: [tab("kept")], rev });
    expect(reply.headers).toMatchObject({ etag: `"${rev}"`, "cache-control": "private, max-age=31536000, immutable" });
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
    expect(running().log()).not.toContain(secret);
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
