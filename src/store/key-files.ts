import { link, open, readdir, rename, rm } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { makeDirectory } from "@flowgate/base/directories";
import { hasCode } from "@flowgate/base/error-code";
import { createPolledWatch } from "@flowgate/base/polled-watch";
import { createKey, type CredentialKey, type CredentialKeys, deriveKey, keyBytes } from "./credential-keys.ts";

export type KeyOptions = {
  readonly credentialSecret?: string | undefined;
  /** Secrets that credentials may still be encrypted with. */
  readonly previousCredentialSecrets?: readonly string[] | undefined;
  /** Contains the key if there is no `credentialSecret`, and former keys. */
  readonly dataDir: string;
};

const keyFile = "credential.key";
/** The new key while a rotation is in progress. */
const nextFile = `${keyFile}.next`;
/** Keys that rotations have replaced: older backups need them. */
const replacedFile = (number: number): string => `${keyFile}.replaced-${number}`;

/**
 * Reads all keys: first the one of `credentialSecret`, or of `<dataDir>/credential.key`, then the others with which
 * values may be encrypted. Throws if there is none.
 */
export async function readKeys(options: KeyOptions): Promise<readonly CredentialKey[]> {
  const { credentialSecret, previousCredentialSecrets = [], dataDir } = options;
  const secrets = [...(credentialSecret === undefined ? [] : [credentialSecret]), ...previousCredentialSecrets];
  if (secrets.includes("")) {
    throw new Error("credentialSecret must not be empty: set a long random one, or leave it out.");
  }
  const [own, others] = await readKeyFiles(dataDir);
  const derived = secrets.map(deriveKey);
  const first = credentialSecret === undefined ? own : derived;
  const keys = [...first, ...derived, ...own, ...others];
  if (keys.length === 0) {
    throw new Error(
      `there is no key for the credentials: name the data directory that contains ${keyFile} with --data-dir, ` +
        "FLOWGATE_DATA_DIR or dataDir, or configure credentialSecret",
    );
  }
  return [...new Map(keys.map((key) => [key.id, key])).values()];
}

/** As `readKeys`. Creates `<dataDir>/credential.key` if there is no key. */
export async function readOrCreateKeys(options: KeyOptions): Promise<readonly CredentialKey[]> {
  const { credentialSecret, previousCredentialSecrets = [], dataDir } = options;
  if (credentialSecret === undefined && previousCredentialSecrets.length === 0) {
    await createKeyFile(dataDir, keyFile);
  }
  return readKeys(options);
}

/** The key in `credential.key`, and the keys in the files beside it. */
async function readKeyFiles(dataDir: string): Promise<readonly [own: CredentialKey[], others: CredentialKey[]]> {
  const names = await readdir(dataDir).catch((error: unknown) => {
    if (hasCode(error, "ENOENT")) {
      return [];
    }
    throw error;
  });
  const replaced = names
    .map((name) => Number(/^credential\.key\.replaced-([1-9]\d{0,5})$/.exec(name)?.[1] ?? 0))
    .filter((number) => number > 0)
    .toSorted((one, other) => other - one);
  const own = await readKeyFile(dataDir, keyFile);
  const others = await Promise.all([nextFile, ...replaced.map(replacedFile)].map((name) => readKeyFile(dataDir, name)));
  return [own === undefined ? [] : [own], others.filter((key) => key !== undefined)];
}

async function readKeyFile(dataDir: string, name: string): Promise<CredentialKey | undefined> {
  const path = join(dataDir, name);
  const file = await open(path, "r").catch((error: unknown) => {
    if (hasCode(error, "ENOENT")) {
      return undefined;
    }
    throw error;
  });
  if (file === undefined) {
    return undefined;
  }
  await using _ = file;
  const { mode } = await file.stat();
  if (process.platform !== "win32" && (mode & 0o077) !== 0) {
    throw new Error(`${path} can be read by other users: make it private with chmod 600.`);
  }
  const key = await file.readFile();
  if (key.length !== keyBytes) {
    throw new Error(`${path} must contain ${keyBytes} bytes, not ${key.length}: restore it from a backup.`);
  }
  return createKey(key);
}

/**
 * Writes a new key to a file unless there is one: under a temporary name, which is linked, so that concurrent processes use the key of
 * the first one. `prepare` is called with the file before it has its name.
 */
async function createKeyFile(dataDir: string, name: string, prepare: (path: string) => void = () => {}): Promise<void> {
  if ((await readKeyFile(dataDir, name)) !== undefined) {
    return;
  }
  makeDirectory(dataDir);
  const draft = join(dataDir, `${name}.${randomBytes(8).toString("hex")}`);
  try {
    await using file = await open(draft, "wx", 0o600);
    await file.writeFile(randomBytes(keyBytes));
    await file.sync();
    prepare(draft);
    await linkUnlessExists(draft, join(dataDir, name));
  } finally {
    await rm(draft, { force: true });
  }
  // Makes the file name durable: without the key, stored credentials could not be decrypted after a power failure.
  await syncFolder(dataDir);
}

async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, "r");
  await folder.sync();
}

/** The new key of a rotation, or of one that was interrupted; undefined: none has begun. */
export function readNextKey(dataDir: string): Promise<CredentialKey | undefined> {
  return readKeyFile(dataDir, nextFile);
}

/** Creates the new key of a rotation. `prepare` is as in `createKeyFile`. */
export async function createNextKey(dataDir: string, prepare: (path: string) => void): Promise<CredentialKey> {
  await createKeyFile(dataDir, nextFile, prepare);
  const key = await readNextKey(dataDir);
  if (key === undefined) {
    throw new Error(`${join(dataDir, nextFile)} was removed while it was being created.`);
  }
  return key;
}

/**
 * Makes the new key of a rotation the one in `credential.key`. Resolves with the name under which the one before is kept, if there was
 * one. Can be repeated after an interruption.
 */
export async function replaceKeyFile(dataDir: string): Promise<string | undefined> {
  const before = await readKeyFile(dataDir, keyFile);
  const kept = before && (await keepKey(dataDir, before));
  await rename(join(dataDir, nextFile), join(dataDir, keyFile)).catch((error: unknown) => {
    // Another command has done it.
    if (!hasCode(error, "ENOENT")) {
      throw error;
    }
  });
  await syncFolder(dataDir);
  return kept;
}

/** Links the key in `credential.key` under a name that nothing replaces, and resolves with that name. */
async function keepKey(dataDir: string, { id }: CredentialKey): Promise<string> {
  for (let number = 1; ; number += 1) {
    const name = replacedFile(number);
    await linkUnlessExists(join(dataDir, keyFile), join(dataDir, name));
    if ((await readKeyFile(dataDir, name))?.id === id) {
      return name;
    }
  }
}

async function linkUnlessExists(path: string, name: string): Promise<void> {
  await link(path, name).catch((error: unknown) => {
    if (!hasCode(error, "EEXIST")) {
      throw error;
    }
  });
}

/** Reads the keys again when a rotation creates or replaces a key file, so that the process knows the key before others use it. */
export async function watchKeyFiles(keys: CredentialKeys, options: KeyOptions): Promise<Disposable> {
  const { dataDir } = options;
  let failures = 0;
  const fingerprint = async (): Promise<string> => {
    const files = await Promise.all([keyFile, nextFile].map((name) => readKeyFile(dataDir, name))).catch(() => []);
    return `${files.map((key) => key?.id ?? "").join(" ")} ${failures}`;
  };
  return createPolledWatch(await fingerprint(), fingerprint).start(async () => {
    // If it fails, it is tried again, since the fingerprint changes.
    await readKeys(options)
      .then((read) => keys.add(read))
      .catch(() => (failures += 1));
  });
}
