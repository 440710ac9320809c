import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmod, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { CredentialKeys, createKey } from "../../src/store/credential-keys.ts";
import { openCredentials, sealCredentials } from "../../src/store/credentials.ts";
import { readOrCreateKeys } from "../../src/store/key-files.ts";
import { openSqliteStore } from "../../src/store/sqlite/open-store.ts";
import { sets } from "../../packages/flows/test/builders.ts";
import { createFolder, draft } from "./builders.ts";

async function readKey(options: Parameters<typeof readOrCreateKeys>[0]): Promise<Buffer> {
  return new CredentialKeys(await readOrCreateKeys(options)).configured().bytes;
}

test("derives the same key from the same secret", async () => {
  const key = await readKey({ credentialSecret: "a long secret", dataDir: "/nowhere" });
  // Must not change: stored credentials could not be decrypted with another value.
  expect(key.toString("hex")).toBe("c45b15957f10d1bc1abe530279f54a42bf55a7025ee5a2de7e4c89b5699b3902");
  expect(await readKey({ credentialSecret: "another secret", dataDir: "/nowhere" })).not.toEqual(key);
});

test("rejects an empty secret", async () => {
  await expect(readKey({ credentialSecret: "", dataDir: "/nowhere" })).rejects.toThrow(
    "credentialSecret must not be empty: set a long random one, or leave it out.",
  );
});

test("creates a key once, readable by its owner only", async () => {
  await using folder = await createFolder();
  const dataDir = join(folder.path, "data");
  const key = await readKey({ dataDir });
  expect(key).toHaveLength(32);
  expect(await readKey({ dataDir })).toEqual(key);
  expect((await stat(join(dataDir, "credential.key"))).mode & 0o777).toBe(0o600);
  expect(await readdir(dataDir)).toEqual(["credential.key"]);
});

test("returns the same key to concurrent callers", async () => {
  await using folder = await createFolder();
  const keys = await Promise.all(Array.from({ length: 20 }, () => readKey({ dataDir: folder.path })));
  expect(new Set(keys.map((key) => key.toString("hex"))).size).toBe(1);
  expect(await readdir(folder.path)).toEqual(["credential.key"]);
});

test("returns the same key in concurrent processes", async () => {
  await using folder = await createFolder();
  const fixture = join(import.meta.dirname, "fixtures/key-reader.ts");
  const children = [1, 2, 3].map(() =>
    spawn(process.execPath, [fixture, folder.path], { stdio: ["pipe", "pipe", "inherit"] }),
  );
  // Starts all processes at the same time, when each of them is ready.
  await Promise.all(children.map(({ stdout }) => once(stdout, "data")));
  for (const { stdin } of children) {
    stdin.end("go");
  }
  const keys = await Promise.all(children.map(({ stdout }) => text(stdout)));
  expect(keys[0]).toMatch(/^[0-9a-f]{64}$/);
  expect(new Set(keys).size).toBe(1);
});

test.each([
  [
    "too short",
    Buffer.alloc(31),
    0o600,
    (path: string) => `${path} must contain 32 bytes, not 31: restore it from a backup.`,
  ],
  [
    "empty",
    Buffer.alloc(0),
    0o600,
    (path: string) => `${path} must contain 32 bytes, not 0: restore it from a backup.`,
  ],
  [
    "readable by others",
    Buffer.alloc(32),
    0o640,
    (path: string) => `${path} can be read by other users: make it private with chmod 600.`,
  ],
])("rejects a key file that is %s", async (_, bytes, mode, message) => {
  await using folder = await createFolder();
  const path = join(folder.path, "credential.key");
  await writeFile(path, bytes);
  await chmod(path, mode);
  await expect(readKey({ dataDir: folder.path })).rejects.toThrow(message(path));
});

test("rejects a secret that is configured after a key was generated, and keeps the data", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "flowgate.db");
  const open = async (credentialSecret?: string) =>
    openSqliteStore({ path, key: await readKey({ credentialSecret, dataDir: folder.path }) });

  const first = await open();
  const revision = await first.flows.commit(draft(first.flows.active().rev));
  await first[Symbol.asyncDispose]();
  await expect(open("a new secret")).rejects.toThrow("can't be decrypted with this credentialSecret");
  await using again = await open();
  expect(again.flows.active()).toEqual(revision);
});

const key = createKey(randomBytes(32));
const keys = new CredentialKeys([createKey(randomBytes(32)), key]);
const others = new CredentialKeys([createKey(randomBytes(32))]);
const credentials = sets({ a: { user: "u", password: "🔑" }, constructor: {} });

test("decrypts credentials that it encrypted", () => {
  expect(openCredentials(keys, "rev", sealCredentials(key, "rev", credentials))).toEqual(credentials);
});

test("encrypts the same credentials differently each time", () => {
  expect(sealCredentials(key, "rev", credentials)).not.toEqual(sealCredentials(key, "rev", credentials));
});

const wrongKey = /^The stored credentials can't be decrypted with this credentialSecret\. /;

test("does not decrypt with another key", () => {
  expect(() => openCredentials(others, "rev", sealCredentials(key, "rev", credentials))).toThrow(wrongKey);
});

test("does not decrypt for another revision", () => {
  expect(() => openCredentials(keys, "other", sealCredentials(key, "rev", credentials))).toThrow(wrongKey);
});

test("does not decrypt if a byte is changed or missing", () => {
  const sealed = sealCredentials(key, "rev", credentials);
  for (let index = 0; index < sealed.length; index++) {
    const changed = Buffer.from(sealed);
    changed.writeUInt8(sealed.readUInt8(index) ^ 1, index);
    expect(() => openCredentials(keys, "rev", changed)).toThrow(/^The stored credentials/);
    expect(() => openCredentials(keys, "rev", sealed.subarray(0, index))).toThrow(/^The stored credentials/);
  }
});

test("distinguishes a newer version and damaged bytes from a wrong key", () => {
  const newer = sealCredentials(key, "rev", credentials);
  newer.writeUInt8(2, 0);
  expect(() => openCredentials(keys, "rev", newer)).toThrow(
    "The stored credentials of revision rev were encrypted by a newer version of Flowgate: use that version.",
  );
  expect(() => openCredentials(keys, "rev", newer.subarray(0, 28))).toThrow(
    "The stored credentials of revision rev are damaged: restore the database from a backup.",
  );
});
