import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { decryptCredentials, encryptCredentials } from "../../src/flows/encrypted.ts";
import { failure, sets } from "./builders.ts";

/** As Node-RED does it, word for word (runtime/lib/nodes/credentials.js). */
function encryptLikeNodeRed(secret: string, text: string | Buffer): string {
  const key = createHash("sha256").update(secret).digest();
  const iv = randomBytes(16);
  const cipher = createCipheriv("aes-256-ctr", key, iv);
  return iv.toString("hex") + cipher.update(text).toString("base64") + cipher.final("base64");
}

const credentials = sets({ a: { user: "Zoë", password: "🔑" }, b: {} });

test("opens what Node-RED encrypted", () => {
  const text = JSON.stringify({ a: { user: "Zoë", password: "🔑" }, b: {} });
  expect(decryptCredentials("secret", encryptLikeNodeRed("secret", text))).toEqual(credentials);
});

test("opens what it encrypted itself", () => {
  expect(decryptCredentials("secret", encryptCredentials("secret", credentials))).toEqual(credentials);
});

const wrong =
  "invalid_credentials credentials.$: can't be decrypted with the configured credentialSecret: encrypt them with that one, or send them by node id";
const shape = "invalid_credentials credentials.$: must hold an object of objects of strings: by node id, then by name";
const like = (text: string | Buffer): string => encryptLikeNodeRed("secret", text);

const faults: [name: string, encrypted: string, message: string][] = [
  ["another secret", encryptCredentials("other", credentials), wrong],
  ["an empty string", "", wrong],
  ["an IV alone", "0".repeat(32), wrong],
  ["an IV that is not hex", "x".repeat(32) + "AAAA", wrong],
  ["text that is not base64", "0".repeat(32) + "AA-A", wrong],
  ["half of it", encryptCredentials("secret", credentials).slice(0, 60), wrong],
  ["invalid UTF-8", like(Buffer.from([0x22, 0xff, 0x22])), wrong],
  ["no JSON", like("{"), wrong],
  ["an array", like("[]"), shape],
  ["null", like("null"), shape],
  ["a set that is no object", like('{"a": "s3cret"}'), shape],
  ["a set that is an array", like('{"a": ["s3cret"]}'), shape],
  ["a number", like('{"a": {"pin": 1234}}'), shape],
  ["the map of a global-config node", like('{"a": {"map": {"KEY": "s3cret"}}}'), shape],
];

test.each(faults)("refuses %s", (_, encrypted, message) => {
  expect(failure(() => decryptCredentials("secret", encrypted))).toBe(message);
});

test("says so where no secret is configured", () => {
  expect(failure(() => decryptCredentials(undefined, encryptCredentials("secret", credentials)))).toBe(
    "invalid_credentials credentials.$: can't be decrypted, as no credentialSecret is configured: configure the one that they were encrypted with, or send them by node id",
  );
});
