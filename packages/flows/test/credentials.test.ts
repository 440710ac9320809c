import { type MessageInitShape, create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { CredentialsSchema } from "../../../gen/flowgate/v1/flows_pb.ts";
import { type CredentialsChange, mergeCredentials } from "../src/credentials.ts";
import { findTypesOf } from "../src/document.ts";
import { decryptCredentials } from "../src/encrypted.ts";
import { encryptCredentials } from "./encrypt-credentials.ts";
import { failure, sets } from "./builders.ts";

type Sets = Record<string, Record<string, string>>;

function merge(
  current: Sets,
  inline: Sets,
  topLevel?: MessageInitShape<typeof CredentialsSchema>,
  ids = ["a", "b"],
): ReturnType<typeof mergeCredentials> {
  return mergeCredentials(change(current, inline, topLevel, ids));
}

function change(
  current: Sets,
  inline: Sets,
  topLevel: MessageInitShape<typeof CredentialsSchema> | undefined,
  ids: string[],
): CredentialsChange {
  const nodes = ids.map((id) => ({ id, type: id === "g" ? "global-config" : "t" }));
  return {
    findTypes: (searched) => findTypesOf(nodes, searched),
    inline: sets(inline),
    topLevel: topLevel && create(CredentialsSchema, topLevel),
    current: sets(current),
    decrypt: (encrypted, findTypes) => decryptCredentials(["secret"], encrypted, findTypes),
  };
}

const encrypted = (object: Sets): string => encryptCredentials("secret", sets(object));
const ab = { a: { user: "u", password: "p" }, b: { token: "t" } };

const cases: [name: string, actual: () => unknown, expected: Sets][] = [
  ["a request without credentials keeps all sets", () => merge(ab, {}), ab],
  ["the set of a removed node is dropped", () => merge(ab, {}, undefined, ["b"]), { b: { token: "t" } }],
  [
    "inline adds and replaces names",
    () => merge(ab, { a: { user: "v", extra: "e" } }),
    { ...ab, a: { user: "v", password: "p", extra: "e" } },
  ],
  ["an empty inline string removes one name", () => merge(ab, { a: { user: "" } }), { ...ab, a: { password: "p" } }],
  ["removing the last name removes the set", () => merge(ab, { b: { token: "" } }), { a: ab.a }],
  ["an empty inline set changes nothing", () => merge(ab, { a: {} }), ab],
  [
    "separate replaces the whole set of the named node only",
    () => merge(ab, {}, { nodes: { a: { values: { user: "v" } } } }),
    { ...ab, a: { user: "v" } },
  ],
  ["an empty separate set removes the set", () => merge(ab, {}, { nodes: { a: {} } }), { b: ab.b }],
  [
    "separate keeps an empty string",
    () => merge({}, {}, { nodes: { a: { values: { user: "" } } } }),
    { a: { user: "" } },
  ],
  ["separate for an unknown node is dropped", () => merge(ab, {}, { nodes: { x: { values: { user: "v" } } } }), ab],
  [
    "separate takes the map of a global-config node, without its flags",
    () => merge({ g: { OLD: "o" } }, {}, { nodes: { g: { map: { KEY: "k", has_KEY: true } } } }, ["g"]),
    { g: { KEY: "k" } },
  ],
  ["an empty map removes the set", () => merge({ g: { KEY: "k" } }, {}, { nodes: { g: { map: {} } } }, ["g"]), {}],
  ["a map for an unknown node is dropped", () => merge(ab, {}, { nodes: { x: { map: { KEY: "k" } } } }), ab],
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
    "any string is a valid node id",
    () =>
      merge({ constructor: { toString: "x" } }, { toString: { user: "u" } }, undefined, ["constructor", "toString"]),
    { constructor: { toString: "x" }, toString: { user: "u" } },
  ],
];

test.each(cases)("%s", (_, actual, expected) => {
  expect(actual()).toEqual(sets(expected));
});

test("an unchanged set is the same Map", () => {
  const request = change(ab, { a: { user: "v" } }, undefined, ["a", "b"]);
  const merged = mergeCredentials(request);
  expect(merged.get("b")).toBe(request.current.get("b"));
  expect(request.current.get("a")).toEqual(new Map(Object.entries(ab.a)));
});

const ownProto = JSON.parse('{"__proto__": {"values": {"user": "s3cret"}}}') as Record<string, never>;

const invalid: [name: string, topLevel: MessageInitShape<typeof CredentialsSchema>, message: string][] = [
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
  [
    "the map of another node",
    { nodes: { a: { map: { KEY: "s3cret" } } } },
    "invalid_flows credentials.a.map: must be a string: only nodes of the type global-config have credentials in map",
  ],
  ["__proto__ as an id", { nodes: ownProto }, "invalid_flows credentials.__proto__: this key is not allowed"],
  [
    "an encrypted set of another secret",
    { encrypted: encryptCredentials("other", sets(ab)) },
    "invalid_credentials credentials.$: can't be decrypted with the configured credentialSecret: encrypt them with that secret, or send credentials by node id",
  ],
];

const many = (count: number, from = 0): Record<string, string> =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`n${from + index}`, "v"]));
const large = (kib: number): Record<string, string> => ({ key: "é".repeat(512 * kib - 2) });
/** Of 17 nodes, with a quarter of MiB each. */
const ids = Array.from("abcdefghijklmnopq");
const manyLarge = Object.fromEntries(ids.map((id) => [id, large(256)]));
const allButOne = Object.fromEntries(Object.entries(manyLarge).slice(0, 16));

test.each<[what: string, actual: () => unknown, message: string]>([
  [
    "many names",
    () => merge({}, {}, { nodes: { a: { values: many(1_001) } } }),
    "invalid_flows credentials.a: must have at most 1000 names",
  ],
  [
    "many names in a map",
    () => merge({}, {}, { nodes: { g: { map: many(1_001) } } }, ["g"]),
    "invalid_flows credentials.g.map: must have at most 1000 names",
  ],
  [
    "many bytes",
    () => merge({}, {}, { nodes: { a: { values: { key: "é".repeat(128 * 1024) } } } }),
    "invalid_flows credentials.a: must have at most 256 KiB, with their names",
  ],
  [
    "many names, some of which a node has",
    () => merge({ a: many(600) }, { a: many(600, 600) }),
    'invalid_flows credentials: those of the node "a" must have at most 1000 names, with what it has already',
  ],
  [
    "many names that are encrypted",
    () => merge({}, {}, { encrypted: encrypted({ a: many(1_001) }) }),
    'invalid_credentials credentials.$: those of the node "a" must have at most 1000 names, with what it has already',
  ],
  [
    "many bytes in all nodes",
    () => merge(allButOne, { q: large(256) }, undefined, ids),
    "invalid_flows credentials: those of all nodes together must have at most 4 MiB, with their names",
  ],
])("rejects %s", (_, actual, message) => {
  expect(failure(actual)).toBe(message);
});

test("accepts as many names and bytes as are permitted, and keeps those that a revision of before has", () => {
  const permitted = { a: many(1_000), b: large(256) };
  expect(merge({}, permitted)).toEqual(sets(permitted));
  const before = { a: many(2_000), b: { token: "t" } };
  expect(merge(before, { b: { token: "new" } })).toEqual(sets({ ...before, b: { token: "new" } }));
  expect(merge(before, { a: { n0: "__PWRD__" } })).toEqual(sets(before));
  expect(merge(manyLarge, { q: { key: "" } }, undefined, ids)).toEqual(sets(allButOne));
});

test.each(invalid)("rejects %s", (_, topLevel, message) => {
  expect(failure(() => merge(ab, {}, topLevel))).toBe(message);
});
