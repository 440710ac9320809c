import { create, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { CreateFlowRequestSchema, SetFlowsRequestSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { estimateJsonBytes, estimateMessageBytes } from "../../src/base/decoding-limit.ts";

const documents: readonly [json: string, bytes: number][] = [
  ["[]", 2 * 2 + 64],
  ["[{},{}]", 2 * 7 + 3 * 64 + 16],
  [`["[,{",1]`, 2 * 9 + 64 + 16],
];

test.each(documents)("estimates %s by its length, its arrays and objects, and its commas", (json, bytes) => {
  expect(estimateJsonBytes(Buffer.from(json))).toBe(bytes);
});

const estimate = (message: Parameters<typeof create<typeof SetFlowsRequestSchema>>[1], maxBytes = 1e9) => {
  const bytes = toBinary(SetFlowsRequestSchema, create(SetFlowsRequestSchema, message));
  return estimateMessageBytes(SetFlowsRequestSchema, bytes, maxBytes) - 2 * bytes.length;
};

test("estimates a message by its messages and its other fields, of maps and values too", () => {
  expect(estimate({})).toBe(96);
  expect(estimate({ flows: [{}, {}] })).toBe(3 * 96);
  expect(estimate({ flows: [{ id: "a", type: "t" }] })).toBe(2 * 96 + 2 * 16);
  // The Struct is a message; the key and the number of its entry are fields.
  expect(estimate({ flows: [{ properties: { x: 1 } }] })).toBe(3 * 96 + 2 * 16);
  // The list is one more.
  expect(estimate({ flows: [{ properties: { x: [1, 2] } }] })).toBe(4 * 96 + 3 * 16);
});

test("stops at the limit", () => {
  const flows = Array.from({ length: 1000 }, () => ({}));
  expect(estimate({ flows })).toBe(1001 * 96);
  expect(estimate({ flows }, 10_000)).toBeLessThan(10_000);
});

test("leaves invalid bytes, and messages in themselves, to the decoder", () => {
  expect(estimateMessageBytes(CreateFlowRequestSchema, Buffer.alloc(100, 0xff), 1e9)).toBeGreaterThan(200);
  const nested = Buffer.concat([Buffer.alloc(3, 0x2a), Buffer.alloc(100_000, 0x0a)]);
  expect(() => estimateMessageBytes(SetFlowsRequestSchema, nested, 1e9)).not.toThrow();
});
