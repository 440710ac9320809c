import { type JsonObject, type JsonValue, create } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, test } from "vitest";
import { NodeCredentialsSchema, NodeSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import { parseFlows, toSubmittedNodes } from "../src/parse-flows.ts";
import type { NodeInit } from "./builders.ts";
import { codePoint } from "../../gateway/test/code-point.ts";

// Names of members of objects are rejected in some places.
const text = fc.string({ unit: codePoint }).filter((value) => !(value in Object.prototype));
const key = fc
  .oneof(text, fc.constantFrom("constructor", "valueOf", "x", "label"))
  .filter((value) => !["__proto__", "id", "type", "credentials", "label", "wires", "z", "env"].includes(value));
const json: fc.Arbitrary<JsonValue> = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    text,
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(key, tie("value"), { maxKeys: 4, noNullPrototype: true }),
  ),
})).value;

const init: fc.Arbitrary<NodeInit> = fc
  .record({
    id: text.filter((id) => id !== ""),
    type: text.filter((type) => !["", "group"].includes(type) && !type.startsWith("subflow")),
    label: fc.oneof(fc.constant(undefined), text, fc.integer(), fc.constant(null)),
    wires: fc.oneof(fc.constant(undefined), fc.array(fc.array(text))),
    properties: fc.dictionary(key, json, { noNullPrototype: true }),
  })
  .map(({ id, type, label, wires, properties }) => {
    const others: JsonObject = wires === undefined ? properties : { ...properties, wires };
    if (label === undefined) {
      return { id, type, properties: others };
    }
    return typeof label === "string"
      ? { id, type, label, properties: others }
      : { id, type, properties: { ...others, label } };
  });

test("toSubmittedNodes restores the parsed nodes without their credentials", () => {
  fc.assert(
    fc.property(fc.uniqueArray(init, { selector: ({ id }) => id }), (inits) => {
      const credentials = create(NodeCredentialsSchema, { values: { user: "u" } });
      const sent = inits.map((each) => create(NodeSchema, { ...each, credentials }));
      const expected = inits.map((each) => create(NodeSchema, each));
      const nodes = toSubmittedNodes(parseFlows(sent).flows);
      expect(nodes.map((node) => create(NodeSchema, node))).toEqual(expected);
    }),
  );
});
