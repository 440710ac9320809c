import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { decryptCredentials as decryptOfTypes, decryptJson } from "../src/encrypted.ts";
import { encryptCredentials } from "./encrypt-credentials.ts";
import { failure, sets } from "./builders.ts";

/** Node-RED's implementation (runtime/lib/nodes/credentials.js). */
function encryptLikeNodeRed(secret: string, text: string | Buffer): string {
  const key = createHash("sha256").update(secret).digest();
  const iv = randomBytes(16);
  const cipher = createCipheriv("aes-256-ctr", key, iv);
  return iv.toString("hex") + cipher.update(text).toString("base64") + cipher.final("base64");
}

const types = new Map([
  ["a", "mqtt-broker"],
  ["g", "global-config"],
]);
const decryptCredentials = (secret: string | undefined, encrypted: string) =>
  decryptOfTypes(secret === undefined ? [] : [secret], encrypted, () => types);

const credentials = sets({ a: { user: "Zoë", password: "🔑" }, b: {} });

test("decrypts credentials that Node-RED encrypted", () => {
  const text = JSON.stringify({ a: { user: "Zoë", password: "🔑" }, b: {} });
  expect(decryptCredentials("secret", encryptLikeNodeRed("secret", text))).toEqual(credentials);
});

test("decrypts the map of a global-config node, and of one that is not in the flows", () => {
  const map = { KEY: "s3cret", has_KEY: true, has_not: "text" };
  const encrypted = encryptLikeNodeRed("secret", JSON.stringify({ g: { map }, gone: { map } }));
  const set = { KEY: "s3cret", has_not: "text" };
  expect(decryptCredentials("secret", encrypted)).toEqual(sets({ g: set, gone: set }));
});

test("leaves out the flags of Node-RED's editor, and what nodes have that are not in the flows", () => {
  const encrypted = encryptLikeNodeRed(
    "secret",
    '{"a": {"user": "x", "has_user": true}, "gone": {"pin": 1}, "other": 2}',
  );
  expect(decryptCredentials("secret", encrypted)).toEqual(sets({ a: { user: "x" } }));
});

test("decrypts credentials that it encrypted", () => {
  expect(decryptCredentials("secret", encryptCredentials("secret", credentials))).toEqual(credentials);
});

// JSON.parse of Node 26.10 takes the second name for that of the earlier credentials.
test("decrypts names that JSON escapes", () => {
  for (const name of ["\\", "\n"]) {
    const named = sets({ a: { user: "Zoë", [name]: "🔑" } });
    expect(decryptCredentials("secret", encryptCredentials("secret", named))).toEqual(named);
  }
});

const wrongSecret =
  "invalid_credentials credentials.$: can't be decrypted with the configured credentialSecret: encrypt them with that secret, or send credentials by node id";
const wrongShape =
  "invalid_credentials credentials.$: must contain an object of objects of strings, by node id and name";
const noText = (name: string, id: string): string =>
  `invalid_credentials credentials.$: the credential "${name}" of the node "${id}" must be text: flowgate import leaves it out, and says so`;
const encryptText = (text: string | Buffer): string => encryptLikeNodeRed("secret", text);

const invalid: [name: string, encrypted: string, message: string][] = [
  ["another secret", encryptCredentials("other", credentials), wrongSecret],
  ["an empty string", "", wrongSecret],
  ["an IV alone", "0".repeat(32), wrongSecret],
  ["an IV that is not hex", "x".repeat(32) + "AAAA", wrongSecret],
  ["text that is not base64", "0".repeat(32) + "AA-A", wrongSecret],
  ["truncated text", encryptCredentials("secret", credentials).slice(0, 60), wrongSecret],
  ["invalid UTF-8", encryptText(Buffer.from([0x22, 0xff, 0x22])), wrongSecret],
  ["invalid JSON", encryptText("{"), wrongSecret],
  ["JSON nested too deep", encryptText(`{"\\n":${"[".repeat(1e6)}${"]".repeat(1e6)}}`), wrongSecret],
  ["an array", encryptText("[]"), wrongShape],
  ["null", encryptText("null"), wrongShape],
  ["a set that is not an object", encryptText('{"a": "s3cret"}'), wrongShape],
  ["a set that is an array", encryptText('{"a": ["s3cret"]}'), wrongShape],
  ["a number", encryptText('{"a": {"pin": 1234}}'), noText("pin", "a")],
  ["the map of another node", encryptText('{"a": {"map": {"KEY": "s3cret"}}}'), noText("map", "a")],
  ["a map with a number", encryptText('{"g": {"map": {"KEY": 1}}}'), noText("KEY", "g")],
  ["a map with a flag of another name", encryptText('{"g": {"map": {"KEY": true}}}'), noText("KEY", "g")],
];

test.each(invalid)("rejects %s", (_, encrypted, message) => {
  expect(failure(() => decryptCredentials("secret", encrypted))).toBe(message);
});

test("decrypts with each of the secrets, also where another one yields JSON by chance", () => {
  const decrypt = (encrypted: string) => decryptOfTypes(["new", "old"], encrypted, () => types);
  expect(decrypt(encryptCredentials("new", credentials))).toEqual(credentials);
  expect(decrypt(encryptCredentials("old", credentials))).toEqual(credentials);
  expect(failure(() => decrypt(encryptCredentials("older", credentials)))).toContain("can't be decrypted");
  const byChance = Array.from({ length: 100_000 }, () => encryptLikeNodeRed("old", "{}")).find((encrypted) => {
    const parsed = decryptJson("new", encrypted);
    return parsed !== undefined && typeof parsed !== "object";
  });
  expect(decrypt(byChance ?? "")).toEqual(sets({}));
});

test("rejects any input without a configured secret", () => {
  expect(failure(() => decryptCredentials(undefined, encryptCredentials("secret", credentials)))).toBe(
    "invalid_credentials credentials.$: can't be decrypted without a configured credentialSecret: configure the one that was used to encrypt them, or send credentials by node id",
  );
});
