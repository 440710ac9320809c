import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { CredentialsSchema } from "../../gen/flowgate/v1/flows_pb.ts";
import { type CredentialsChange, mergeCredentials } from "../../src/flows/credentials.ts";
import { decryptCredentials, encryptCredentials } from "../../src/flows/encrypted.ts";
import { failure, sets } from "./builders.ts";

type Sets = Record<string, Record<string, string>>;

function merge(
  current: Sets,
  inline: Sets,
  given?: MessageInitShape<typeof CredentialsSchema>,
  ids = ["a", "b"],
): ReturnType<typeof mergeCredentials> {
  return mergeCredentials(change(current, inline, given, ids));
}

function change(
  current: Sets,
  inline: Sets,
  given: MessageInitShape<typeof CredentialsSchema> | undefined,
  ids: string[],
): CredentialsChange {
  return {
    flows: ids.map((id) => ({ id, type: "t" })),
    inline: sets(inline),
    given: given && create(CredentialsSchema, given),
    current: sets(current),
    decrypt: (encrypted) => decryptCredentials("secret", encrypted),
  };
}

const encrypted = (object: Sets): string => encryptCredentials("secret", sets(object));
const ab = { a: { user: "u", password: "p" }, b: { token: "t" } };

const cases: [name: string, actual: () => unknown, expected: Sets][] = [
  ["a request without credentials keeps all", () => merge(ab, {}), ab],
  ["a node that left the flows loses its own", () => merge(ab, {}, undefined, ["b"]), { b: { token: "t" } }],
  [
    "inline adds and replaces names",
    () => merge(ab, { a: { user: "v", extra: "e" } }),
    { ...ab, a: { user: "v", password: "p", extra: "e" } },
  ],
  ["an empty inline string removes one name", () => merge(ab, { a: { user: "" } }), { ...ab, a: { password: "p" } }],
  ["removing the last name removes the set", () => merge(ab, { b: { token: "" } }), { a: ab.a }],
  ["inline without names changes nothing", () => merge(ab, { a: {} }), ab],
  [
    "separate replaces the whole set of a named node alone",
    () => merge(ab, {}, { nodes: { a: { values: { user: "v" } } } }),
    { ...ab, a: { user: "v" } },
  ],
  ["separate without names removes a set", () => merge(ab, {}, { nodes: { a: {} } }), { b: ab.b }],
  [
    "separate keeps an empty string",
    () => merge({}, {}, { nodes: { a: { values: { user: "" } } } }),
    { a: { user: "" } },
  ],
  ["separate for an unknown node is dropped", () => merge(ab, {}, { nodes: { x: { values: { user: "v" } } } }), ab],
  ["empty separate changes nothing", () => merge(ab, {}, {}), ab],
  [
    "separate replaces before inline merges",
    () => merge(ab, { a: { extra: "e" } }, { nodes: { a: { values: { user: "v" } } } }),
    { ...ab, a: { user: "v", extra: "e" } },
  ],
  ["encrypted replaces all", () => merge(ab, {}, { encrypted: encrypted({ b: { k: "v" } }) }), { b: { k: "v" } }],
  [
    "encrypted replaces before inline merges",
    () => merge(ab, { a: { user: "v" } }, { encrypted: encrypted({ b: { k: "v" } }) }),
    { a: { user: "v" }, b: { k: "v" } },
  ],
  [
    "a node may be called anything",
    () =>
      merge({ constructor: { toString: "x" } }, { toString: { user: "u" } }, undefined, ["constructor", "toString"]),
    { constructor: { toString: "x" }, toString: { user: "u" } },
  ],
];

test.each(cases)("%s", (_, actual, expected) => {
  expect(actual()).toEqual(sets(expected));
});

test("a set that nothing changed is the same Map", () => {
  const given = change(ab, { a: { user: "v" } }, undefined, ["a", "b"]);
  const merged = mergeCredentials(given);
  expect(merged.get("b")).toBe(given.current.get("b"));
  expect(given.current.get("a")).toEqual(new Map(Object.entries(ab.a)));
});

const ownProto = JSON.parse('{"__proto__": {"values": {"user": "s3cret"}}}') as Record<string, never>;

const faults: [name: string, given: MessageInitShape<typeof CredentialsSchema>, message: string][] = [
  [
    "both forms",
    { encrypted: "x", nodes: { a: {} } },
    'invalid_flows credentials: must be either "$" alone or sets by node id, not both',
  ],
  [
    "a lone surrogate",
    { nodes: { "1": { values: { user: "s3cret\ud800" } } } },
    "invalid_flows credentials['1'].user: must be valid Unicode, without lone surrogates",
  ],
  ["__proto__ as an id", { nodes: ownProto }, "invalid_flows credentials.__proto__: this key is not allowed"],
  [
    "an encrypted set of another secret",
    { encrypted: encryptCredentials("other", sets(ab)) },
    "invalid_credentials credentials.$: can't be decrypted with the configured credentialSecret: encrypt them with that one, or send them by node id",
  ],
];

test.each(faults)("refuses %s", (_, given, message) => {
  expect(failure(() => merge(ab, {}, given))).toBe(message);
});
