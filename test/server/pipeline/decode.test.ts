import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { createRequestDecoder } from "@flowgate/gateway";
import { expect, test } from "vitest";
import { FlowsService } from "../../../gen/flowgate/v1/flows_pb.ts";

type Bytes = Uint8Array;

const message = (field: number, ...content: Bytes[]): Bytes =>
  new BinaryWriter().tag(field, WireType.LengthDelimited).bytes(Buffer.concat(content)).finish();
const text = (field: number, value: string): Bytes =>
  new BinaryWriter().tag(field, WireType.LengthDelimited).string(value).finish();

const entry = (key: string, value: Bytes): Bytes => message(1, text(1, key), message(2, value));
const entryWithLateKey = (key: string, value: Bytes): Bytes => message(1, message(2, value), text(1, key));
const objectIn = (struct: Bytes): Bytes => message(5, struct);
const arrayOf = (...values: Bytes[]): Bytes => message(6, ...values.map((value) => message(1, value)));

const leaf = text(3, "leaf");
const lengthPrefix = (field: number, length: number): Bytes =>
  new BinaryWriter().tag(field, WireType.LengthDelimited).uint32(length).finish();

/** An encoded Value with this many levels of objects, written from its end, so that the time is linear in the levels. */
function nested(levels: number): Bytes {
  const parts = [leaf];
  let length = leaf.length;
  const prepend = (part: Bytes) => {
    parts.push(part);
    length += part.length;
  };
  const key = text(1, "k");
  for (let level = 0; level < levels; level++) {
    prepend(lengthPrefix(2, length));
    prepend(key);
    prepend(lengthPrefix(1, length));
    prepend(lengthPrefix(5, length));
  }
  return Buffer.concat(parts.toReversed());
}

function nestedWithLateKeys(levels: number): Bytes {
  return levels === 0 ? leaf : objectIn(entryWithLateKey("k", nestedWithLateKeys(levels - 1)));
}

const node = (id: string, ...properties: Bytes[]): Bytes =>
  message(1, text(1, id), text(2, "t"), message(5, ...properties));

const decode = createRequestDecoder(FlowsService.method.setFlows);

function failure(...nodes: Bytes[]): unknown {
  try {
    return decode(Buffer.concat(nodes), { kind: "proto" });
  } catch (error) {
    return error;
  }
}

test.each([
  ["objects", node("b", entry("x", text(3, "")), entry("p", nested(60))), /^flows\[1\]\.p\.k\.k[.k]+/],
  ["twenty thousand objects", node("b", entry("p", nested(20_000))), /^flows\[1\]\.p\.k\.k[.k]+/],
  ["values before their keys", node("b", entryWithLateKey("p", nestedWithLateKeys(60))), /^flows\[1\]\.p\.k[.k]+/],
  ["objects in an array", node("b", entry("p", arrayOf(nested(1), nested(60)))), /^flows\[1\]\.p\[1\]\.k[.k]+/],
  ["an object after others", node("b", entry("o", nested(40)), entry("p", nested(60))), /^flows\[1\]\.p\.k[.k]+/],
])("reports the path of %s nested too deep", (_, tooDeep, path) => {
  expect(failure(node("a", entry("q", nested(40))), tooDeep)).toMatchObject({
    reason: "invalid_flows",
    message: expect.stringMatching(new RegExp(`${path.source}: nested deeper than 100 levels$`)),
  });
});

test("decodes what is not nested too deep, and reports other invalid bytes without a path", () => {
  expect(failure(node("a", entry("p", nested(40))))).toMatchObject({ flows: [{ id: "a" }] });
  expect(failure(Buffer.from([0x0a, 0x7f, 0x00]))).toMatchObject({
    reason: "invalid_request",
    message: "the request message can't be decoded",
  });
});
