import { create } from "@bufbuild/protobuf";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import {
  DeploymentOutcome,
  FlowsService,
  GetFlowsResponseSchema,
  type GetFlowsResponse,
  RevisionSchema,
} from "../../../../../../gen/flowgate/v1/flows_pb.ts";
import { createEncodedMessage, createJsonEncoder, getEncodedMessage, setEncodedField } from "../../../../src/index.ts";
import { serve } from "../../../serve.ts";

const nodes = '[{"id":"a","type":"t","name":"Zoë"}]';

/** A response whose flows can't be read, so that the body must consist of the encoded bytes. */
function encoded(json: string, rev = "r1"): GetFlowsResponse {
  const response = create(GetFlowsResponseSchema, { rev });
  Object.defineProperty(response, "flows", {
    get() {
      throw new Error("the field was read");
    },
  });
  return setEncodedField(response, "flows", Buffer.from(json));
}

function open(response: GetFlowsResponse) {
  return serve({ routes: (router) => router.service(FlowsService, { getFlows: () => response }) });
}

test.each([
  ["small", nodes],
  ["large", `[${Array.from({ length: 2000 }, (_, index) => `{"id":"${index}","type":"é"}`).join()}]`],
])("the encoded JSON of a %s field is the body, or part of it", async (_size, json) => {
  for (const response of [encoded(json), Object.freeze(encoded(json))]) {
    await using server = await open(response);
    const v1 = await server.send("GET", "/flows");
    expect([v1.status, v1.headers["etag"], v1.body]).toEqual([200, '"r1"', json]);
    const v2 = await server.send("GET", "/flows", { headers: { "service-api-version": "v2" } });
    expect(v2.body).toBe(`{"flows":${json},"rev":"r1"}`);
    const compressed = await server.send("GET", "/flows", {
      headers: { "accept-encoding": "gzip;q=1", "service-api-version": "v2" },
    });
    expect((json.length < 1024 ? compressed.bytes : gunzipSync(compressed.bytes)).toString()).toBe(v2.body);
    const head = await server.send("HEAD", "/flows");
    expect([head.body, head.headers["content-length"]]).toEqual(["", String(Buffer.byteLength(json))]);
    expect((await server.send("GET", "/flows", { headers: { "if-none-match": '"r1"' } })).status).toBe(304);
  }
});

test("empty other fields are omitted", async () => {
  await using server = await open(encoded(nodes, ""));
  const { body } = await server.send("GET", "/flows", { headers: { "service-api-version": "v2" } });
  expect(body).toBe(`{"flows":${nodes}}`);
});

test("a message is encoded as in a response body", () => {
  const encode = createJsonEncoder(RevisionSchema);
  const message = create(RevisionSchema, {
    rev: "é",
    outcome: DeploymentOutcome.RUNNING,
    flows: [{ id: "a", type: "t", properties: { nothing: null } }],
  });
  expect(Buffer.from(encode(message)).toString()).toBe(
    '{"rev":"é","outcome":"running","flows":[{"id":"a","type":"t","nothing":null}]}',
  );
});

test("the bytes of an encoded message are the body, and its fields are decoded when they are read", async () => {
  const bytes = Buffer.from('{"flows":[],"rev":"r1","more":1}');
  let decoded = 0;
  const response = createEncodedMessage(GetFlowsResponseSchema, { format: "http", bytes }, () => {
    decoded++;
    return create(GetFlowsResponseSchema, { rev: "r1" });
  });
  await using server = await open(response);
  const { body, headers } = await server.send("GET", "/flows", { headers: { "service-api-version": "v2" } });
  expect([body, headers["etag"], decoded]).toEqual([bytes.toString(), '"r1"', 1]);
  expect(getEncodedMessage(response, "http")).toBe(bytes);
  expect(getEncodedMessage(response, "proto")).toBeUndefined();
  expect([response.rev, response.flows, decoded]).toEqual(["r1", [], 1]);
});
