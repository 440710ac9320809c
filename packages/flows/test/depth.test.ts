import { type JsonValue, create, fromBinary, fromJson, toBinary, toJson } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { GetFlowsResponseSchema, SetFlowsRequestSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import { maxNodeDepth } from "../src/violation.ts";
import { parseFlows, toSubmittedNodes } from "../src/parse-flows.ts";
import { failure, node } from "./builders.ts";

const containers: [name: string, wrap: (value: JsonValue) => JsonValue][] = [
  ["objects", (value) => ({ k: value })],
  ["arrays", (value) => [value]],
];

/** A node with `depth` nested objects or arrays, including the node itself. */
function nested(depth: number, wrap: (value: JsonValue) => JsonValue) {
  let value: JsonValue = "leaf";
  for (let level = 1; level < depth; level++) {
    value = wrap(value);
  }
  return node({ properties: { p: value } });
}

test.each(containers)("all protocols encode and decode %s at the maximum depth", (_, wrap) => {
  const request = create(SetFlowsRequestSchema, { flows: [nested(maxNodeDepth, wrap)] });
  const response = create(GetFlowsResponseSchema, { flows: toSubmittedNodes(parseFlows(request.flows).flows) });

  expect(fromBinary(SetFlowsRequestSchema, toBinary(SetFlowsRequestSchema, request))).toEqual(request);
  expect(fromJson(SetFlowsRequestSchema, toJson(SetFlowsRequestSchema, request))).toEqual(request);
  expect(fromBinary(GetFlowsResponseSchema, toBinary(GetFlowsResponseSchema, response))).toEqual(response);
  expect(fromJson(GetFlowsResponseSchema, toJson(GetFlowsResponseSchema, response))).toEqual(response);
});

test("the maximum depth is within the 100 nested messages of a decoder that counts map entries", () => {
  const properties = { struct: 1, entry: 1, value: 1 };
  const perLevel = properties.struct + properties.entry + properties.value;
  const requestAndNode = 2;
  expect(requestAndNode + maxNodeDepth * perLevel).toBeLessThanOrEqual(100);
});

test.each(containers)("rejects %s that are one level deeper", (_, wrap) => {
  expect(failure(() => parseFlows([nested(maxNodeDepth + 1, wrap)]))).toMatch(
    /^invalid_flows flows\[0\]\.p(\.k|\[0\])+: must not be nested deeper than 32 levels of objects and arrays$/,
  );
});

test.each(containers)("rejects a million nested %s without overflowing the stack", (_, wrap) => {
  expect(failure(() => parseFlows([nested(1_000_000, wrap)]))).toMatch(/must not be nested deeper than 32 levels/);
});
