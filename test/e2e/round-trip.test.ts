import type { JsonObject } from "@bufbuild/protobuf";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FlowsService } from "../../gen/flowgate/v1/flows_pb.ts";
import { json, v2 } from "./rest.ts";
import { call, rpcProtocolNames, rpcProtocols } from "./rpc.ts";
import { type Service, startService, withoutRuntime } from "./service.ts";

// Flows are returned unchanged, over all combinations of protocols.

let service: Service;
beforeAll(async () => {
  service = await startService({ config: withoutRuntime });
});
afterAll(() => service?.[Symbol.asyncDispose]());

// The first one.
test("before the first deployment there are no flows, and a revision", async () => {
  const v1 = await service.send("GET", "/flows");
  expect([v1.status, v1.json(), v1.headers.etag]).toEqual([200, [], expect.stringMatching(/^".+"$/)]);
  const { rev } = (await service.send("GET", "/flows", { headers: v2 })).json() as { rev: string };
  expect(v1.headers.etag).toBe(`"${rev}"`);
  const reply = await service.send("POST", "/flows", {
    headers: { ...json, ...v2 },
    body: JSON.stringify({ flows: [], rev }),
  });
  expect(reply.status).toBe(200);
});

type Node = { id: string; type: string; label?: unknown; [key: string]: unknown };

const nodes: readonly Node[] = [
  { id: "z", type: "unknown-type", b: 1, a: 2, "10": "an index", "2": "another" },
  { id: "a", type: "tab", label: "", info: "", disabled: false, env: [] },
  { id: "ü", type: "\u{1f600} \u0000 \u2028 \ufeff", label: "e\u0301 \u00e9 \u200d 中文" },
  { id: "prototype", type: "null", constructor: "x", toString: null, valueOf: [] },
  { id: "null", type: "null", nothing: null, list: [null, [null, {}], { a: null }], empty: {}, none: [] },
  { id: "no text", type: "x", label: null },
  { id: "label 7", type: "x", label: 7 },
  { id: "label {}", type: "x", label: { a: [""] } },
  { id: "numbers", type: "x", n: [0, 1.5, -1, 1e21, 5e-324, 1.7976931348623157e308, 9007199254740991, 0.1] },
  {
    id: "keys",
    type: "x",
    "": "empty",
    " ": " ",
    "a.b": 1,
    "a[0]": 2,
    $: 3,
    properties: { id: "x" },
    values: 1,
    rev: "r",
  },
  { id: "wired", type: "x", x: 1, y: -2, wires: [["a", "a", "missing"], [], [""]], z: "a" },
  { id: "deep", type: "x", deep: nested(29) },
  { id: "long", type: "x", text: "\\\"'<>&\n\t".repeat(1000) },
];

function nested(levels: number): JsonObject {
  return levels === 0 ? {} : { a: nested(levels - 1) };
}

const text = JSON.stringify(nodes);
// The same JSON in another notation: escapes, whitespace, exponents.
const otherText = ` ${text.replaceAll("é", "\\u00e9").replaceAll(",", " ,\n").replaceAll("/", "\\/")} `;

const senders: Readonly<Record<string, () => Promise<unknown>>> = {
  "REST v1": () => service.send("POST", "/flows", { headers: json, body: text }),
  "REST v2": () => service.send("POST", "/flows", { headers: { ...json, ...v2 }, body: `{"flows":${text}}` }),
  ...Object.fromEntries(
    rpcProtocolNames.map((name) => [
      name,
      () => call(rpcProtocols[name](service.url), FlowsService.method.setFlows, { flows: nodes.map(toMessage) }),
    ]),
  ),
};

function toMessage({ id, type, ...rest }: Node) {
  const { label, ...others } = rest;
  return typeof label === "string"
    ? { id, type, label, properties: others as JsonObject }
    : { id, type, properties: rest as JsonObject };
}

test.each(Object.entries(senders))("sent over %s", async (_name, sendIt) => {
  await service.send("POST", "/flows", { headers: json, body: "[]" });
  await sendIt();
  const v1 = await service.send("GET", "/flows");
  expect(v1.json()).toEqual(nodes);
  const second = await service.send("GET", "/flows", { headers: v2 });
  const { flows, rev } = second.json() as { flows: unknown; rev: string };
  expect(flows).toEqual(nodes);
  expect([v1.headers.etag, second.headers.etag]).toEqual([`"${rev}"`, `"${rev}"`]);
  for (const name of rpcProtocolNames) {
    const outcome = await call(rpcProtocols[name](service.url), FlowsService.method.getFlows, {});
    if ("refused" in outcome) {
      throw new Error(`${name}: ${outcome.refused.message}`);
    }
    expect(outcome.message.rev).toBe(rev);
    expect(outcome.message.flows.map(({ $typeName: _typeName, ...node }) => node)).toEqual(
      nodes.map((node) => ({ ...toMessage(node) })),
    );
  }
});

test("the order of keys is kept, whatever the notation", async () => {
  await service.send("POST", "/flows", { headers: json, body: text });
  const { body } = await service.send("GET", "/flows");
  const keys = (document: string) => (JSON.parse(document) as object[]).map((node) => Object.keys(node));
  expect(keys(body)).toEqual(keys(text));
});

test("whitespace, escapes and a charset make no difference", async () => {
  const headers = { "content-type": 'application/json; charset="UTF-8"' };
  const reply = await service.send("POST", "/flows", { headers, body: otherText.replaceAll(" ,\\n", ",") });
  expect(reply.status).toBe(204);
  expect((await service.send("GET", "/flows")).json()).toEqual(JSON.parse(otherText));
});

test("10,000 nodes are returned unchanged", async () => {
  const nodes = Array.from({ length: 10_000 }, (_, index) => ({
    id: `n${index}`,
    type: "comment",
    z: "t",
    name: `é${index}`,
  }));
  const many = [{ id: "t", type: "tab" }, ...nodes];
  const reply = await service.send("POST", "/flows", { headers: json, body: JSON.stringify(many) });
  expect(reply.status).toBe(204);
  expect((await service.send("GET", "/flows")).json()).toEqual(many);
  await service.send("POST", "/flows", { headers: json, body: "[]" });
});

describe("entity tags", () => {
  test("unchanged flows are not sent again", async () => {
    await service.send("POST", "/flows", { headers: json, body: '[{"id":"a","type":"tab"}]' });
    const { headers: first } = await service.send("GET", "/flows");
    const etag = first.etag ?? "";
    for (const headers of [{}, v2]) {
      for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
        const reply = await service.send("GET", "/flows", { headers: { ...headers, "if-none-match": tag } });
        expect([reply.status, reply.body, reply.headers.etag]).toEqual([304, "", etag]);
      }
    }
    await service.send("POST", "/flows", { headers: json, body: '[{"id":"a","type":"tab"}]' });
    const changed = await service.send("GET", "/flows", { headers: { "if-none-match": etag } });
    expect(changed.status).toBe(200);
    expect(changed.headers.etag).not.toBe(etag);
  });
});
