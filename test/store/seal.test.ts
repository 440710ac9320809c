import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { openCredentials, sealCredentials } from "../../src/store/seal.ts";
import { sets } from "../flows/builders.ts";

const key = randomBytes(32);
const credentials = sets({ a: { user: "u", password: "🔑" }, constructor: {} });

test("decrypts credentials that it encrypted", () => {
  expect(openCredentials(key, "rev", sealCredentials(key, "rev", credentials))).toEqual(credentials);
});

test("encrypts the same credentials differently each time", () => {
  expect(sealCredentials(key, "rev", credentials)).not.toEqual(sealCredentials(key, "rev", credentials));
});

const wrongKey = /^The stored credentials can't be decrypted with this credentialSecret\. /;

test("does not decrypt with another key", () => {
  expect(() => openCredentials(randomBytes(32), "rev", sealCredentials(key, "rev", credentials))).toThrow(wrongKey);
});

test("does not decrypt for another revision", () => {
  expect(() => openCredentials(key, "other", sealCredentials(key, "rev", credentials))).toThrow(wrongKey);
});

test("does not decrypt if a byte is changed or missing", () => {
  const sealed = sealCredentials(key, "rev", credentials);
  for (let index = 0; index < sealed.length; index++) {
    const changed = Buffer.from(sealed);
    changed.writeUInt8(sealed.readUInt8(index) ^ 1, index);
    expect(() => openCredentials(key, "rev", changed)).toThrow(/^The stored credentials/);
    expect(() => openCredentials(key, "rev", sealed.subarray(0, index))).toThrow(/^The stored credentials/);
  }
});

test("distinguishes a newer version and damaged bytes from a wrong key", () => {
  const newer = sealCredentials(key, "rev", credentials);
  newer.writeUInt8(2, 0);
  expect(() => openCredentials(key, "rev", newer)).toThrow(
    "The stored credentials of revision rev were encrypted by a newer version of Flowgate: use that version.",
  );
  expect(() => openCredentials(key, "rev", newer.subarray(0, 28))).toThrow(
    "The stored credentials of revision rev are damaged: restore the database from a backup.",
  );
});
