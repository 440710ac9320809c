import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DeploymentOutcome, FlowsService, NodeSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { deploy, readRuntime, tryDeploy } from "./deploy.ts";
import { functionNode, installReporter, type Node, reporter, started, tab } from "./flow-builders.ts";
import { json } from "./rest.ts";
import { call, rpcProtocols } from "./rpc.ts";
import { eventually, type Service, startService } from "./service.ts";

const secret = "the secret of credentials";

let service: Service;
beforeAll(async () => {
  // The starts of nodes are counted in the context, which a new process does not have.
  const config = { credentialSecret: secret, runtime: { freshProcess: "never" } };
  service = await startService({ config, prepare: installReporter });
});
afterAll(() => service?.[Symbol.asyncDispose]());

async function getJson(path: string): Promise<Record<string, Record<string, unknown>>> {
  return JSON.parse(await service.get(path)) as Record<string, Record<string, unknown>>;
}

function encrypt(sets: unknown, with_ = secret): string {
  const iv = randomBytes(16);
  const cipher = createCipheriv("aes-256-ctr", createHash("sha256").update(with_).digest(), iv);
  return iv.toString("hex") + Buffer.concat([cipher.update(JSON.stringify(sets)), cipher.final()]).toString("base64");
}

describe("credentials", () => {
  const flows = [tab("T"), reporter("a", "T"), reporter("b", "T")];
  const inline = (id: string, credentials: object) =>
    flows.map((node) => (node.id === id ? { ...node, credentials } : node));
  const seen = async () => (await getJson("/reporter"))["credentials"];
  const start = () =>
    deploy(service, { flows, credentials: { a: { user: "u", password: "p" }, b: { user: "v", password: "q" } } });

  type Case = {
    readonly name: string;
    readonly flows?: readonly Node[];
    readonly credentials?: object;
    readonly a: object;
    readonly b: object | undefined;
    readonly type?: string;
  };
  const before = { a: { user: "u", password: "p" }, b: { user: "v", password: "q" } };
  const cases: Case[] = [
    { name: "none given: each keeps what it has", ...before },
    { name: "inline: merged", flows: inline("a", { password: "new" }), a: { user: "u", password: "new" }, b: before.b },
    { name: "inline: an empty text removes", flows: inline("a", { password: "" }), a: { user: "u" }, b: before.b },
    { name: "inline: empty, nothing changes", flows: inline("a", {}), ...before },
    {
      name: "inline, of nodes deployment",
      type: "nodes",
      flows: inline("a", { password: "new" }),
      a: { user: "u", password: "new" },
      b: before.b,
    },
    {
      name: "inline, of flows deployment",
      type: "flows",
      flows: inline("a", { password: "" }),
      a: { user: "u" },
      b: before.b,
    },
    { name: "separate: replaces the set", credentials: { a: { user: "x" } }, a: { user: "x" }, b: before.b },
    { name: "separate: an empty set removes all", credentials: { a: {} }, a: {}, b: before.b },
    { name: "separate: an unknown node", credentials: { nobody: { user: "x" } }, ...before },
    { name: "separate: of no node", credentials: {}, ...before },
    {
      name: "separate, of nodes deployment",
      type: "nodes",
      credentials: { b: { user: "y" } },
      a: before.a,
      b: { user: "y" },
    },
    {
      name: "separate and inline: the inline ones merge into the separate",
      flows: inline("a", { password: "in" }),
      credentials: { a: { user: "sep" } },
      a: { user: "sep", password: "in" },
      b: before.b,
    },
    { name: "encrypted: replaces all", credentials: { $: encrypt({ a: { user: "enc" } }) }, a: { user: "enc" }, b: {} },
    {
      name: "encrypted, of nodes deployment",
      type: "nodes",
      credentials: { $: encrypt({ a: { user: "é" }, b: { password: "z" } }) },
      a: { user: "é" },
      b: { password: "z" },
    },
    {
      name: "encrypted and inline: the inline ones merge",
      flows: inline("b", { password: "in" }),
      credentials: { $: encrypt({ b: { user: "enc" } }) },
      a: {},
      b: { user: "enc", password: "in" },
    },
    { name: "of a node that is gone: dropped", flows: [tab("T"), reporter("a", "T")], a: before.a, b: undefined },
  ];

  test.for(cases)("$name", async ({ flows: next = flows, credentials, type = "full", a, b }) => {
    await start();
    expect(await seen()).toEqual({ "the a": before.a, "the b": before.b });
    await deploy(service, { flows: next, ...(credentials && { credentials }) }, type);
    expect(await seen()).toEqual({ "the a": a, ...(b && { "the b": b }) });
    expect((await service.send("GET", "/flows")).json()).toEqual(
      next.map(({ credentials: _credentials, ...node }) => node),
    );
  });

  test("credentials of a removed node come back with it", async () => {
    await start();
    await deploy(service, { flows: [tab("T"), reporter("a", "T")] }, "nodes");
    await deploy(service, { flows }, "nodes");
    expect(await seen()).toEqual({ "the a": before.a, "the b": before.b });
  });

  test("a change of credentials restarts only their node", async () => {
    await start();
    const first = await getJson("/reporter");
    await deploy(service, { flows: inline("a", { password: "changed" }) }, "nodes");
    await deploy(service, { flows: inline("a", { password: "changed" }) }, "nodes");
    const then = await getJson("/reporter");
    expect(started(first["starts"], then["starts"])).toEqual(["the a"]);
  });

  test("credentials that can't be decrypted are rejected, without a change", async () => {
    const rev = await start();
    const good = encrypt({ a: { user: "x" } });
    for (const $ of [
      "",
      "x",
      good.slice(0, 40),
      `${good}!`,
      encrypt({ a: { user: "x" } }, "another secret"),
      encrypt({ a: "x" }),
      encrypt({ a: { user: 1 } }),
      encrypt([]),
      encrypt("text"),
    ]) {
      const reply = await tryDeploy(service, { flows, credentials: { $ } });
      expect([$, reply.status, reply.json()]).toEqual([
        $,
        400,
        { code: "invalid_credentials", message: expect.stringMatching(/^credentials\.\$: /) },
      ]);
    }
    expect(await seen()).toEqual({ "the a": before.a, "the b": before.b });
    expect((await service.send("GET", "/flows")).headers.etag).toBe(`"${rev}"`);
  });

  test("credentials survive a restart of the service", async () => {
    await using first = await startService({ config: { credentialSecret: secret }, prepare: installReporter });
    await deploy(first, { flows, credentials: { a: { user: "stays" } } });
    expect(await first.stop()).toBe(0);
    await using second = await startService({ config: { credentialSecret: secret }, dataDir: first.dataDir });
    expect((JSON.parse(await second.get("/reporter")) as { credentials: unknown }).credentials).toEqual({
      "the a": { user: "stays" },
      "the b": {},
    });
  });
});

describe("credentials of environment variables", () => {
  const variable = (name: string) => [{ name, type: "cred", value: "" }];
  const place = { x: 1, y: 1 };
  const flows: Node[] = [
    { id: "config", type: "global-config", env: variable("GLOBAL") },
    { ...tab("env"), env: variable("TAB") },
    { id: "group", type: "group", z: "env", nodes: ["env outer"], env: variable("GROUP") },
    {
      id: "definition",
      type: "subflow",
      env: [...variable("INSTANCE"), ...variable("DEFINITION")],
      in: [{ wires: [{ id: "env inner" }] }],
      out: [{ wires: [{ id: "env inner", port: 0 }] }],
    },
    functionNode("env inner", {
      z: "definition",
      func: `msg.payload.instance = env.get("INSTANCE"); msg.payload.definition = env.get("DEFINITION"); return msg;`,
    }),
    { id: "env in", type: "http in", z: "env", ...place, url: "/env", method: "get", wires: [["env outer"]] },
    functionNode("env outer", {
      z: "env",
      g: "group",
      func: `msg.payload = { global: env.get("GLOBAL"), tab: env.get("TAB"), group: env.get("GROUP") }; return msg;`,
      wires: [["instance"]],
    }),
    { id: "instance", type: "subflow:definition", z: "env", ...place, env: variable("INSTANCE"), wires: [["env out"]] },
    { id: "env out", type: "http response", z: "env", ...place, wires: [] },
  ];

  type Sets = Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  const flat = (value: string): Sets => ({
    config: { GLOBAL: value },
    env: { TAB: value },
    group: { GROUP: value },
    definition: { DEFINITION: value },
    instance: { INSTANCE: value },
  });
  const nested = (value: string): Sets => ({ ...flat(value), config: { map: { GLOBAL: value, has_GLOBAL: true } } });
  const withSets = (sets: Sets): Node[] =>
    flows.map((node) => (sets[node.id] ? { ...node, credentials: sets[node.id] } : node));
  const allOf = (value: string) => ({ global: value, tab: value, group: value, instance: value, definition: value });

  async function deployOverRpc(protocol: "Connect with JSON" | "gRPC", sets: Sets): Promise<void> {
    const nodes = flows.map(({ id, type, label, ...properties }) => {
      const { map, ...values } = (sets[id] ?? {}) as { map?: JsonObject };
      return create(NodeSchema, {
        id,
        type,
        ...(typeof label === "string" && { label }),
        credentials: { values, ...(map && { map }) },
        properties: properties as JsonObject,
      });
    });
    const reply = await call(rpcProtocols[protocol](service.url), FlowsService.method.setFlows, { flows: nodes });
    expect(reply).toMatchObject({ message: { outcome: DeploymentOutcome.RUNNING } });
  }

  const forms: [form: string, deploy: (value: string) => Promise<unknown>][] = [
    ["inline", (value) => deploy(service, { flows: withSets(nested(value)) })],
    ["inline, by name alone", (value) => deploy(service, { flows: withSets(flat(value)) })],
    [
      "inline over v1",
      (value) => service.send("POST", "/flows", { headers: json, body: JSON.stringify(withSets(nested(value))) }),
    ],
    ["separate", (value) => deploy(service, { flows, credentials: nested(value) })],
    ["encrypted", (value) => deploy(service, { flows, credentials: { $: encrypt(nested(value)) } })],
    ["map over gRPC", (value) => deployOverRpc("gRPC", nested(value))],
    ["values over gRPC", (value) => deployOverRpc("gRPC", flat(value))],
    ["map over Connect with JSON", (value) => deployOverRpc("Connect with JSON", nested(value))],
  ];

  test.each(forms)(
    "%s: flows read them, later deployments keep them, and no response has them",
    async (form, deployForm) => {
      const value = `canary ${form}`;
      await deployForm(value);
      expect(await getJson("/env")).toEqual(allOf(value));
      const replies = [await service.send("GET", "/flows"), await service.send("GET", "/flow/global")];
      expect(replies.map(({ status }) => status)).toEqual([200, 200]);
      expect(JSON.stringify(replies.map(({ body }) => body))).not.toMatch(/canary|credentials/);
      await deploy(service, { flows: [...flows, tab(form)] });
      expect(await getJson("/env")).toEqual(allOf(value));
    },
  );

  test.each(["nodes", "flows"])("a deployment of %s changes and removes those of all flows", async (type) => {
    await deploy(service, { flows, credentials: nested("first") });
    await deploy(service, { flows: withSets({ config: { map: { GLOBAL: "second" } } }) }, type);
    expect(await getJson("/env")).toEqual({ ...allOf("first"), global: "second" });
    await deploy(service, { flows: [...flows, tab("another")] }, type);
    expect(await getJson("/env")).toEqual({ ...allOf("first"), global: "second" });
    await deploy(service, { flows: withSets({ config: { map: { GLOBAL: "" } } }) }, type);
    expect(await getJson("/env")).toEqual({ ...allOf("first"), global: "" });
  });

  test.each<[what: string, deployment: { flows: Node[]; credentials?: object }, error: object]>([
    [
      "a number",
      { flows: withSets({ config: { map: { GLOBAL: 1 } } }) },
      { code: "invalid_flows", message: "flows[0].credentials.map.GLOBAL: must be a string" },
    ],
    [
      "the map of a tab",
      { flows, credentials: { env: { map: { TAB: "canary" } } } },
      {
        code: "invalid_flows",
        message: "credentials.env.map: must be a string: only nodes of the type global-config have credentials in map",
      },
    ],
    [
      "an encrypted number",
      { flows, credentials: { $: encrypt({ config: { map: { GLOBAL: 1 } } }) } },
      {
        code: "invalid_credentials",
        message:
          'credentials.$: the credential "GLOBAL" of the node "config" must be text: flowgate import leaves it out, and says so',
      },
    ],
  ])("rejects %s", async (_, deployment, error) => {
    const reply = await tryDeploy(service, deployment);
    expect([reply.status, reply.json()]).toEqual([400, error]);
  });
});

test("credentials in an error that ends the runtime process are not shown", async () => {
  const value = "tops3cretvalue";
  const env = [{ name: "S", type: "cred", value: "" }];
  const code = `const value = env.get("S");
    util.inspect.constructor("return process")().nextTick(() => { throw new Error("it is " + value); });`;
  await using crashing = await startService({ config: { runtime: { safeMode: { exits: 1 } } } });
  await deploy(crashing, {
    flows: [{ ...tab("T"), env, credentials: { S: value } }, functionNode("f", { z: "T", initialize: code })],
  });
  await eventually(async () => expect((await readRuntime(crashing)).state).toBe("safe"));
  for (const [path, shown] of [
    ["/runtime", "it is [redacted]"],
    ["/settings", "it is [redacted]"],
    ["/revisions", "the log has the error"],
  ] as const) {
    const { body } = await crashing.send("GET", path);
    expect(body).toContain(shown);
    expect(body).not.toContain(value);
  }
});
