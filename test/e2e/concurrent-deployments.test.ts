import { ConnectError, createClient } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { DeploymentErrorReason, DeploymentErrorSchema, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { NodeChange } from "../../gen/flowgate/v1/diff_pb.ts";
import { tryDeploy } from "./deploy.ts";
import { type Node, reporter, tab } from "./flow-builders.ts";
import { useOperators } from "./operators.ts";
import { call, rpcProtocols } from "./rpc.ts";

const { tokens, running, send, deployAs, activeFlows, newest } = useOperators();

describe("conditions", () => {
  const past = "Sat, 01 Jan 2000 00:00:00 GMT";
  const future = "Fri, 01 Jan 2100 00:00:00 GMT";
  const post = (headers: Record<string, string>) =>
    tryDeploy(running(), { flows: [tab("conditional")] }, "full", { ...tokens["ada"], ...headers });

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
      { code: "invalid_argument", message: 'If-None-Match: must be * or a list of entity tags, such as "abc"' },
    ]);
  });

  test("apply to a reload", async () => {
    const reload = (headers: Record<string, string>) =>
      tryDeploy(running(), { flows: [] }, "reload", { ...tokens["ada"], ...headers });
    expect((await reload({ "if-match": '"other"' })).status).toBe(412);
    expect((await reload({ "if-none-match": "*" })).status).toBe(412);
    expect((await reload({})).status).toBe(200);
  });

  test("the rev of a body is a version mismatch, which describes the active revision", async () => {
    const rev = await deployAs("bob", [tab("theirs")], { "service-deployment-message": "mine" });
    const reply = await tryDeploy(running(), { flows: [], rev: "other" }, "full", tokens["ada"]);
    expect(reply.status).toBe(409);
    expect(reply.json()).toEqual({
      code: "version_mismatch",
      message: `rev: the active revision is "${rev}": read it, resolve the differences and deploy again`,
      active: expect.objectContaining({ rev, user: "bob", message: "mine", active: true }) as unknown,
    });
    expect(reply.body).not.toContain("127.0.0.1");
  });
});

describe("an idempotency key", () => {
  const key = (value: string) => ({ "idempotency-key": value });

  test("makes a repeated deployment one revision, whatever its rev", async () => {
    const base = await deployAs("ada", [tab("base")]);
    const send_ = (headers = {}) =>
      tryDeploy(running(), { flows: [tab("once")], rev: base }, "full", { ...tokens["ada"], ...key("k1"), ...headers });
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
      rpcProtocols.gRPC(running().url),
      FlowsService.method.undoFlows,
      { idempotencyKey: "k3" },
      tokens["ada"],
    );
    expect(overRpc).toMatchObject({ message: first.json() as object });
    expect(await activeFlows()).toEqual([tab("good")]);
  });
});

describe("concurrent deployments", () => {
  const labelled = (id: string, label: string): Node => ({ ...tab(id), label });
  const both = [labelled("a", "a"), labelled("b", "b")];
  const merging = { "service-deployment-merge": "true" };
  const attempt = (flows: readonly Node[], rev: string, headers: Record<string, string> = {}) =>
    tryDeploy(running(), { flows, rev }, "full", { ...tokens["ada"], ...headers });

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
    const client = createClient(FlowsService, rpcProtocols.gRPC(running().url));
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
    expect(JSON.parse(await running().get("/reporter", tokens["ada"]))).toMatchObject({
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
