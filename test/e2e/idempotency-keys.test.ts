import { describe, expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { tryDeploy } from "./deploy.ts";
import { tab } from "./flow-builders.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { useOperators } from "./operators.ts";

const { tokens, running, send, deployAs, activeFlows } = useOperators();

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
