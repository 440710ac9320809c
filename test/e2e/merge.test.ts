import { ConnectError, createClient } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { DeploymentErrorReason, DeploymentErrorSchema, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { NodeChange } from "../../gen/flowgate/v1/diff_pb.ts";
import { tryDeploy } from "./deploy.ts";
import { type Node, reporter, tab } from "./flow-builders.ts";
import { rpcProtocols } from "./rpc.ts";
import { useOperators } from "./operators.ts";

const { tokens, running, deployAs, activeFlows, newest } = useOperators();

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
