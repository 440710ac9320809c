import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CredentialSets, FlowNode } from "@flowgate/flows";
import type { Revision } from "../src/revision.ts";
import { type OpenedRuntime, credentials, revision, runtimeUnderTest } from "./builders.ts";
import { configProbe, endpoint, functionNode, installProbe, probe, tab } from "./flow-builders.ts";

test("serves HTTP-in nodes of the newest deployment", async () => {
  const stored = revision(1, endpoint("/hello", `msg.payload = "one"`));
  await using runtime = await runtimeUnderTest({ active: async () => stored });
  await runtime.untilState("running");
  expect(await runtime.get("/hello")).toBe("one");
  await runtime.apply(revision(2, endpoint("/hello", `msg.payload = "two"`)), "nodes");
  expect(await runtime.get("/hello")).toBe("two");
});

test("finds a module that was installed after its nodes were missing, on reload", async () => {
  await using runtime = await runtimeUnderTest();
  const flows = [tab("T"), probe("a", "T")];
  await runtime.apply(revision(1, flows), "full");
  expect(runtime.status()).toMatchObject({ state: "failed", message: "missing node types: probe" });
  await installProbe(`${runtime.dataDir}/modules`);
  await runtime.apply(revision(1, flows), "reload");
  expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
});

describe("a running child", () => {
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    runtime = await runtimeUnderTest({ freshProcess: "never" }, installProbe);
  });
  afterAll(() => runtime[Symbol.asyncDispose]());

  function next(flows: readonly FlowNode[], sets?: CredentialSets): Revision {
    seq += 1;
    return revision(seq, flows, sets);
  }

  test("reports missing node types, and starts the next deployment without them", async () => {
    const flows = endpoint("/hello", `msg.payload = "hello"`);
    await runtime.apply(next([...flows, { id: "x", type: "teleport" }, { id: "y", type: "warp" }]), "full");
    expect(runtime.status()).toMatchObject({ state: "failed", message: "missing node types: teleport, warp" });
    await runtime.apply(next(flows), "nodes");
    expect(runtime.status()).toMatchObject({ state: "running", message: undefined });
    expect(await runtime.get("/hello")).toBe("hello");
  });

  test("keeps the running flows when the runtime rejects new ones", async () => {
    const flows = endpoint("/hello", `msg.payload = "hello"`);
    await runtime.apply(next(flows), "full");
    await runtime.apply(next([...flows, tab("hasOwnProperty")]), "nodes");
    expect(runtime.status()).toMatchObject({ state: "failed", message: expect.stringContaining("hasOwnProperty") });
    expect(await runtime.get("/hello")).toBe("hello");
    await runtime.apply(next(endpoint("/hello", `msg.payload = "again"`)), "nodes");
    expect(runtime.status().state).toBe("running");
    expect(await runtime.get("/hello")).toBe("again");
  });

  test("reports a tab that can't be started", async () => {
    const itself = { ...configProbe("C", "T"), config: "C" };
    await runtime.apply(next([tab("T"), itself, ...endpoint("/hello", `msg.payload = "hello"`)]), "full");
    expect(runtime.status()).toMatchObject({
      state: "running",
      message: `tab "tab T" (T) can't be started: probe-config "the C" (C): config: refers to itself`,
    });
    expect(await runtime.get("/hello")).toBe("hello");
  });

  test("runs nodes installed in its directory, with their credentials", async () => {
    const secretOf = async (name: string) =>
      (JSON.parse(await runtime.get("/probe")) as { secrets: Record<string, string | null> }).secrets[`the ${name}`];
    const flows = [tab("T"), probe("a", "T"), probe("b", "T")];
    await runtime.apply(next(flows, credentials({ a: { secret: "s1" }, b: { secret: "s2" } })), "full");
    expect(await secretOf("a")).toBe("s1");
    expect(await secretOf("b")).toBe("s2");
    await runtime.apply(next(flows, credentials({ a: { secret: "s3" } })), "nodes");
    expect(await secretOf("a")).toBe("s3");
    await runtime.apply(next(flows, credentials({ a: { secret: "s4" } })), "reload");
    expect(await secretOf("a")).toBe("s4");
    await runtime.apply(next(flows), "flows");
    expect(await secretOf("a")).toBe(null);
  });

  // JSON.parse of Node 26.10 takes the second key for that of the earlier deployment.
  test("gives nodes the keys with escapes that were deployed", async () => {
    for (const table of [
      { x: 1, "\\": 1 },
      { x: 1, "\n": 1 },
    ]) {
      await runtime.apply(next([tab("T"), probe("a", "T", { table })]), "full");
      const { tableKeys } = JSON.parse(await runtime.get("/probe")) as { tableKeys: Record<string, string[]> };
      expect(tableKeys["the a"]).toEqual(Object.keys(table));
    }
  });

  test("logs messages of nodes with the node's id, type, name and tab", async () => {
    const flows = [
      tab("T"),
      {
        ...functionNode("f", { z: "T", initialize: `node.warn("a warning"); console.log("printed")` }),
        name: "the label",
      },
      functionNode("g", { z: "T", initialize: `node.warn("no label")` }),
    ];
    await runtime.apply(next(flows), "full");
    expect(await runtime.untilLogged(/a warning/)).toMatchObject({
      level: "warn",
      nodeId: "f",
      nodeType: "function",
      nodeName: "the label",
    });
    expect(await runtime.untilLogged(/no label/)).toEqual({
      level: "warn",
      message: "no label",
      nodeId: "g",
      nodeType: "function",
      flowId: "T",
      flowLabel: "tab T",
    });
    const noise = runtime.entries.filter(({ message }) => /unencrypted|Welcome/.test(message));
    expect(noise).toEqual([]);
    const announcements = runtime.entries.filter(({ message }) => /^(Start|Stopp|Updat)ed flows$/.test(message));
    expect(new Set(announcements.map(({ level }) => level))).toEqual(new Set(["debug"]));
  });

  test("runs ten thousand nodes", async () => {
    const many = Array.from({ length: 10_000 }, (_, index) => ({
      id: `c${index}`,
      type: "comment",
      z: "T",
      name: `note ${index}`,
      info: "x".repeat(120),
      wires: [],
    }));
    await runtime.apply(next([tab("T"), ...many, ...endpoint("/hello", `msg.payload = "hello"`)]), "full");
    expect(await runtime.get("/hello")).toBe("hello");
  });
});
