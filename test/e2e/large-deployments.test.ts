import type { JsonObject } from "@bufbuild/protobuf";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DeploymentType, FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
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
