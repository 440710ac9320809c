import type { JsonObject } from "@bufbuild/protobuf";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DeploymentType, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { RevisionsService, RevisionView } from "../../gen/flowgate/v1/revisions_pb.ts";
import { json, v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";

// Large deployments are decoded and checked on a thread, with the same results as small ones.

let service: Service;
beforeAll(async () => {
  service = await startService({ config: withoutRuntime });
});
afterAll(() => service?.[Symbol.asyncDispose]());

type Node = { readonly id: string; readonly type: string; readonly [property: string]: unknown };
type Deployment = { readonly flows: readonly Node[]; readonly rev?: string; readonly credentials?: JsonObject };

/** Placed after the others, so that error paths are the same. */
const padding: readonly Node[] = Array.from({ length: 500 }, (_, index) => ({
  id: `padding ${index}`,
  type: "comment",
  info: "é".repeat(100),
}));

const sizes = { small: [], large: padding } as const satisfies Record<string, readonly Node[]>;

type Answered = { readonly rev?: string | undefined; readonly failure?: unknown };

/** v1 does not support credentials and a revision beside the flows. */
async function postV1({ flows, rev }: Deployment): Promise<Answered> {
  const headers = { ...json, ...(rev !== undefined && { "if-match": `"${rev}"` }) };
  const { status, body } = await service.send("POST", "/flows", { headers, body: JSON.stringify(flows) });
  return status === 204 ? {} : { failure: [status, body] };
}

async function postV2(deployment: Deployment, compressed = false): Promise<Answered> {
  const text = JSON.stringify(deployment);
  const { status, body } = await service.send("POST", "/flows", {
    headers: { ...json, ...v2, ...(compressed && { "content-encoding": "gzip" }) },
    body: compressed ? gzipSync(text) : text,
  });
  return status === 200 ? (JSON.parse(body) as Answered) : { failure: [status, body] };
}

async function callRpc(name: (typeof rpcProtocolNames)[number], { flows, rev, credentials }: Deployment) {
  const nodes = flows.map(({ id, type, credentials: own, ...properties }) => ({
    id,
    type,
    properties: properties as JsonObject,
    ...(own !== undefined && { credentials: { values: own as Record<string, string> } }),
  }));
  const outcome = await call(rpcProtocols[name](service.url), FlowsService.method.setFlows, {
    flows: nodes,
    ...(rev !== undefined && { rev }),
    ...(credentials !== undefined && {
      credentials: {
        nodes: Object.fromEntries(
          Object.entries(credentials).map(([id, values]) => [id, { values: values as Record<string, string> }]),
        ),
      },
    }),
  });
  if ("message" in outcome) {
    return { rev: outcome.message.rev };
  }
  const { code, reason, message } = outcome.refused;
  return { failure: [code, reason, message] };
}

const senders: Readonly<Record<string, (deployment: Deployment) => Promise<Answered>>> = {
  "REST v1": postV1,
  "REST v2": postV2,
  "REST v2, compressed": (deployment) => postV2(deployment, true),
  ...Object.fromEntries(rpcProtocolNames.map((name) => [name, (deployment) => callRpc(name, deployment)])),
};

const refused: Readonly<Record<string, Deployment>> = {
  "a node without a type": { flows: [{ id: "a", type: "" }] },
  "an id twice": {
    flows: [
      { id: "a", type: "t" },
      { id: "a", type: "t" },
    ],
  },
  "invalid wires": { flows: [{ id: "a", type: "t", wires: ["b"] }] },
  "a group in itself": { flows: [{ id: "a", type: "group", g: "a" }] },
  "a revision that is not active": { flows: [{ id: "a", type: "t" }], rev: "another" },
};

describe.each(Object.entries(senders))("over %s", (_name, send) => {
  test.each(Object.entries(refused))("%s is rejected as in a small one", async (_what, deployment) => {
    const [small, large] = await Promise.all(
      Object.values(sizes).map((more) => send({ ...deployment, flows: [...deployment.flows, ...more] })),
    );
    expect(small?.failure).toBeDefined();
    expect(large).toEqual(small);
  });

  test("the flows are returned unchanged, and the next deployment can replace them", async () => {
    const flows = [{ id: "first", type: "t", label: 7, nested: { a: [null, 1.5] } }, ...padding];
    expect((await send({ flows })).failure).toBeUndefined();
    const { body, headers } = await service.send("GET", "/flows");
    expect(JSON.parse(body)).toEqual(flows);
    const [, rev = ""] = /^"(.+)"$/.exec(headers.etag ?? "") ?? [];
    expect((await send({ flows: padding, rev })).failure).toBeUndefined();
    expect((await service.send("GET", "/flows")).json()).toEqual(padding);
  });
});

const documents: readonly [what: string, body: string | Buffer][] = [
  ["text that is not JSON", '[{"id":"a",}'],
  ["a key twice", '[{"id":"a","type":"t","x":1,"x":2}]'],
  ["a lone surrogate", '[{"id":"a","type":"t","x":"\\ud800"}]'],
  ["bytes that are not UTF-8", Buffer.from([0x5b, 0x22, 0xff, 0x22, 0x5d])],
  ["a number as id", '[{"id":1,"type":"t"}]'],
  ["what is no array", '{"flows":7}'],
];

test.each(documents)("%s gets the same response as in a small body", async (_what, body) => {
  const large = Buffer.concat([Buffer.from(body), Buffer.alloc(100_000, " ")]);
  const targets = ["/flows", "/flowgate.v1.FlowsService/SetFlows"];
  for (const target of targets) {
    const responses = await Promise.all(
      [body, large].map((each) => service.send("POST", target, { headers: json, body: each })),
    );
    const [one, other] = responses.map((response) => [
      response.status,
      response.headers["content-type"],
      response.body,
    ]);
    expect(one?.[0]).toBe(400);
    expect(other).toEqual(one);
  }
});

test("invalid bytes get the same response as in a small message", async () => {
  const send = (body: Buffer) =>
    service.send("POST", "/flowgate.v1.FlowsService/SetFlows", {
      headers: { "content-type": "application/proto" },
      body,
    });
  const [small, large] = await Promise.all([send(Buffer.alloc(10, 0xff)), send(Buffer.alloc(100_000, 0xff))]);
  expect([small.status, small.json()]).toEqual([400, expect.objectContaining({ code: "invalid_argument" })]);
  expect([large.status, large.body]).toEqual([small.status, small.body]);
});

test("an unknown deployment type and a reload get the same response as in a small one", async () => {
  const transport = rpcProtocols.gRPC(service.url);
  const flows = padding.map(({ id, type, ...properties }) => ({ id, type, properties: properties as JsonObject }));
  const send = (nodes: typeof flows, deploymentType: DeploymentType) =>
    call(transport, FlowsService.method.setFlows, { flows: nodes, deploymentType });
  const [small, large] = await Promise.all([send([], 9 as DeploymentType), send(flows, 9 as DeploymentType)]);
  expect(small).toMatchObject({ refused: { reason: "invalid_deployment_type" } });
  expect({ ...large, refused: { ...("refused" in large && large.refused), metadata: undefined } }).toEqual({
    refused: { ...("refused" in small && small.refused), metadata: undefined },
  });
  await postV1({ flows: [] });
  expect(await send(flows, DeploymentType.RELOAD)).toHaveProperty("message");
  expect((await service.send("GET", "/flows")).json()).toEqual([]);
});

test("large forced deployments that race are all accepted, with the credentials of previous ones", async () => {
  await postV1({ flows: [] });
  const nodes = Array.from({ length: 6 }, (_, index) => ({ id: `own ${index}`, type: "t" }));
  const responses = await Promise.all(
    nodes.map(({ id }) => postV2({ flows: [...nodes, ...padding], credentials: { [id]: { password: id } } })),
  );
  expect(new Set(responses.map(({ rev }) => rev)).size).toBe(nodes.length);
});

describe("flows of more than 256 KiB, whose responses are encoded on a thread", () => {
  const flows: Node[] = [
    { id: "t", type: "tab", label: "T", info: "é" },
    { id: "n", type: "inject", z: "t", x: 1, y: 1, props: [{ p: "payload" }], wires: [["d"]] },
    { id: "d", type: "debug", z: "t", x: 1, y: 1, active: true, wires: [] },
    { id: "c", type: "mqtt-broker", z: "t", broker: "localhost" },
  ];
  const many: readonly Node[] = Array.from({ length: 10 }, (_, at) =>
    padding.map((node) => ({ ...node, id: `${node.id} ${at}` })),
  ).flat();
  const without = (value: unknown, ...names: readonly string[]): unknown =>
    Object.fromEntries(Object.entries(value as object).filter(([name]) => !names.includes(name)));

  /** What each protocol has of the flow, the flows, and the revision; without what differs anyway. */
  async function readAll(rev: string, count: number) {
    const rest = async (path: string) => (await service.send("GET", path, { headers: v2 })).json();
    const all: Record<string, unknown> = {
      rest: [
        without(await rest("/flow/t"), "rev"),
        without(await rest("/flow/unknown")),
        ((await rest("/flows")) as Deployment).flows.slice(0, count),
        ((await rest(`/revisions/${rev}?view=FULL`)) as Deployment).flows.slice(0, count),
      ],
    };
    for (const name of rpcProtocolNames) {
      const transport = rpcProtocols[name](service.url);
      const flow = await call(transport, FlowsService.method.getFlow, { id: "t" });
      const unknown = await call(transport, FlowsService.method.getFlow, { id: "unknown" });
      const got = await call(transport, FlowsService.method.getFlows, {});
      const again = await call(transport, FlowsService.method.getFlows, {});
      const revision = await call(transport, RevisionsService.method.getRevision, { rev, view: RevisionView.FULL });
      expect(again).toEqual(got);
      if (!("message" in flow && "message" in got && "message" in revision && "refused" in unknown)) {
        throw new Error(`${name} has failed`);
      }
      expect([flow.message.rev, got.message.rev, revision.message.rev]).toEqual([rev, rev, rev]);
      all[name] = [
        without(flow.message, "rev"),
        unknown.refused.message,
        got.message.flows.slice(0, count),
        revision.message.flows.slice(0, count),
      ];
    }
    return all;
  }

  async function deployAndRead(nodes: readonly Node[]) {
    const { rev = "" } = await postV2({ flows: nodes });
    return readAll(rev, flows.length);
  }

  test("are the same as in short ones, over each protocol", async () => {
    expect(await deployAndRead([...flows, ...many])).toEqual(await deployAndRead(flows));
  });

  test("have the revision of a restore, which has the same flows", async () => {
    const { rev = "" } = await postV2({ flows: [...flows, ...many] });
    await readAll(rev, flows.length);
    const restored = (await service.send("POST", `/revisions/${rev}:restore`)).json() as { rev: string };
    expect(restored.rev).not.toBe(rev);
    await readAll(restored.rev, flows.length);
  });

  test("can be changed one by one as short ones, with the same errors", async () => {
    const change = async (nodes: readonly Node[]) => {
      await postV2({ flows: nodes });
      const send = async (method: string, path: string, body?: object) => {
        const reply = await service.send(method, path, body && { headers: json, body: JSON.stringify(body) });
        return { status: reply.status, body: reply.body === "" ? undefined : without(reply.json(), "rev", "id") };
      };
      const node = { id: "new", type: "debug", x: 1, y: 1, wires: [] };
      const replies = [
        await send("POST", "/flow", { label: "created", nodes: [node] }),
        await send("POST", "/flow", { label: "again", nodes: [node] }),
        await send("PUT", "/flow/t", { label: "changed", info: "x".repeat(100_000), nodes: [{ ...node, id: "n2" }] }),
        await send("PUT", "/flow/t", { label: "changed", nodes: [{ id: "n2" }] }),
        await send("PUT", "/flow/t", { id: "other", label: "changed", nodes: [] }),
        await send("PUT", "/flow/unknown", { label: "changed", nodes: [] }),
        await send("POST", "/flow/t:disable"),
        await send("DELETE", "/flow/unknown"),
      ];
      const { flows: after } = (await service.send("GET", "/flows", { headers: v2 })).json() as Deployment;
      const ids = new Set(padding.map(({ info }) => info));
      const left = after
        .filter(({ info }) => !ids.has(info))
        .map(({ id, ...rest }) => (rest["label"] === "created" ? rest : { id, ...rest }));
      replies.push(await send("DELETE", "/flow/t"));
      return {
        replies,
        left: left.map((each) => (each["z"] === undefined || each["z"] === "t" ? each : without(each, "z"))),
      };
    };
    const short = await change(flows);
    expect(short.replies.map(({ status }) => status)).toEqual([200, 400, 200, 400, 400, 404, 200, 404, 204]);
    expect(await change([...flows, ...many])).toEqual(short);
  });
});
