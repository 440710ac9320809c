import { randomBytes } from "node:crypto";
import { chmod, open, readFile, realpath, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { hasCode } from "@flowgate/base/error-code";
import { CliFailure } from "../failure.ts";

/** The contents of the client's configuration file. */
export type ClientConfig = {
  /** The name of the server to use unless another one is named. */
  readonly currentServer?: string;
  readonly servers: Readonly<Record<string, SavedServer>>;
  /** By the URL of their server, to which alone they are sent. */
  readonly tokens: Readonly<Record<string, SavedToken>>;
};

/** A server, and how to reach it. Paths are absolute. */
export type SavedServer = {
  readonly server: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly tlsServerName?: string;
  readonly insecureSkipTlsVerify?: boolean;
  readonly insecureAllowHttp?: boolean;
};

export type SavedToken = {
  readonly token: string;
  readonly user: string;
  /** RFC 3339. */
  readonly expireTime: string;
  /** Of a login at an issuer: what renews the token. */
  readonly refreshToken?: string;
  readonly issuer?: string;
  readonly clientId?: string;
};

type Environment = Readonly<Record<string, string | undefined>>;

/** The path of the file, by the XDG Base Directory Specification. */
export function clientConfigPath(environment: Environment): string {
  const configured = environment["XDG_CONFIG_HOME"] ?? "";
  return join(isAbsolute(configured) ? configured : join(homedir(), ".config"), "flowgate/config.yaml");
}

/** Throws a CliFailure that names the path of the first invalid value. */
function parseClientConfig(content: Readonly<Record<string, unknown>>, path: string): ClientConfig {
  const known = new Set(["currentServer", "servers", "tokens"]);
  const unknown = Object.keys(content).find((key) => !known.has(key));
  if (unknown !== undefined) {
    const now = renamedKeys.get(unknown);
    throw new CliFailure(
      `${path}: ${unknown}: ${now === undefined ? "unknown key" : `is called ${now} now: rename it`}`,
    );
  }
  const currentServer = content["currentServer"];
  if (currentServer !== undefined && typeof currentServer !== "string") {
    throw new CliFailure(`${path}: currentServer: must be the name of a server`);
  }
  return {
    ...(currentServer !== undefined && { currentServer }),
    servers: readEntries<SavedServer>(content["servers"], `${path}: servers`, serverFields, ["server"]),
    tokens: readEntries<SavedToken>(content["tokens"], `${path}: tokens`, tokenFields, ["token", "user", "expireTime"]),
  };
}

/** Keys of earlier builds. */
const renamedKeys = new Map([
  ["contexts", "servers"],
  ["currentContext", "currentServer"],
]);

const serverFields = {
  server: "string",
  caFile: "string",
  certFile: "string",
  keyFile: "string",
  tlsServerName: "string",
  insecureSkipTlsVerify: "boolean",
  insecureAllowHttp: "boolean",
} as const satisfies Record<keyof SavedServer, string>;

const tokenFields = {
  token: "string",
  user: "string",
  expireTime: "string",
  refreshToken: "string",
  issuer: "string",
  clientId: "string",
} as const satisfies Record<keyof SavedToken, string>;

function readEntries<T>(
  entries: unknown = {},
  place: string,
  fields: Readonly<Record<string, string>>,
  required: readonly string[],
): Readonly<Record<string, T>> {
  for (const [name, entry] of Object.entries(asObject(entries ?? {}, place))) {
    const values = asObject(entry, `${place}.${name}`);
    for (const [key, value] of Object.entries(values)) {
      const type = Object.hasOwn(fields, key) ? fields[key] : undefined;
      if (type === undefined) {
        throw new CliFailure(`${place}.${name}.${key}: unknown key`);
      }
      if (typeof value !== type) {
        throw new CliFailure(`${place}.${name}.${key}: must be a ${type}`);
      }
    }
    const missing = required.find((key) => !Object.hasOwn(values, key));
    if (missing !== undefined) {
      throw new CliFailure(`${place}.${name}.${missing}: is missing`);
    }
  }
  return (entries ?? {}) as Readonly<Record<string, T>>;
}

function asObject(value: unknown, place: string): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new CliFailure(`${place}: must be keys and values`);
  }
  return value as Readonly<Record<string, unknown>>;
}

/** Reads the configuration of the client. It is empty if there is no file. */
export async function readClientConfig(environment: Environment): Promise<ClientConfig> {
  const path = clientConfigPath(environment);
  if (!(await privateFileExists(path))) {
    return { servers: {}, tokens: {} };
  }
  // Loads the YAML parser only if there is a file.
  const { readConfigFile } = await import("../config-file.ts");
  const { content } = await readConfigFile(path, path);
  return parseClientConfig(content, path);
}

/** A place in the file, and its new value; undefined: it is removed. */
export type ConfigChange = { readonly path: readonly string[]; readonly value: unknown };

/**
 * Changes the file and keeps its comments. Only this user can read it, since it contains tokens. A function gets the current content, and
 * no other command changes it until the changes have been made.
 */
export async function changeClientConfig(
  environment: Environment,
  changes: readonly ConfigChange[] | ((current: ClientConfig) => Promise<readonly ConfigChange[]>),
): Promise<void> {
  const path = clientConfigPath(environment);
  try {
    const { makeDirectory } = await import("@flowgate/base/directories");
    makeDirectory(dirname(path));
    await using _ = await lock(path);
    const made = typeof changes === "function" ? await changes(await readClientConfig(environment)) : changes;
    if (made.length > 0) {
      await change(path, made);
    }
  } catch (error) {
    throw error instanceof CliFailure
      ? error
      : new CliFailure(`${path} cannot be written: ${(error as Error).message}`, { cause: error });
  }
}

async function change(path: string, changes: readonly ConfigChange[]): Promise<void> {
  const { parseDocument } = await import("yaml");
  const exists = await privateFileExists(path);
  const document = parseDocument(exists ? await readFile(path, "utf8") : "");
  for (const { path: place, value } of changes) {
    if (value !== undefined) {
      document.setIn(place, document.createNode(value));
    } else if (document.hasIn(place)) {
      document.deleteIn(place);
    }
  }
  // A symbolic link stays one.
  await replace(exists ? await realpath(path) : path, document.toString());
}

/** A command that holds the lock for longer confirms it in the meantime, unless it was killed or suspended. */
const lockLifetimeMs = 5_000;
const confirmMs = 1_000;
const lockWaitMs = 3 * lockLifetimeMs;

/** Excludes other commands that change the file at the same time. Disposing ends that. */
async function lock(path: string): Promise<AsyncDisposable> {
  const lockPath = `${path}.lock`;
  const id = randomBytes(6).toString("hex");
  const remove = (): Promise<void> => rm(lockPath, { force: true });
  // After a suspension, another command may hold the lock.
  const confirm = (): void => void utimes(lockPath, new Date(), new Date()).catch(() => {});
  const release = async (): Promise<void> => {
    if ((await readFile(lockPath, "utf8").catch(() => "")) === id) {
      await remove();
    }
  };
  for (const endMs = Date.now() + lockWaitMs; ; await delay(20)) {
    try {
      await writeFile(lockPath, id, { flag: "wx", mode: 0o600 });
      const timer = setInterval(confirm, confirmMs).unref();
      return {
        async [Symbol.asyncDispose]() {
          clearInterval(timer);
          await release();
        },
      };
    } catch (error) {
      if (!hasCode(error, "EEXIST")) {
        throw error;
      }
      const { mtimeMs = Infinity } = (await stat(lockPath).catch(() => undefined)) ?? {};
      if (Date.now() - mtimeMs > lockLifetimeMs) {
        await remove();
      } else if (Date.now() > endMs) {
        throw new CliFailure(`${path} is being changed by another command: try again, or remove ${lockPath}`, {
          cause: error,
        });
      }
    }
  }
}

/** A reader sees the previous content or the whole new one, also after a power failure. */
async function replace(path: string, content: string): Promise<void> {
  const temporary = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    const file = await open(temporary, "wx", 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await chmod(temporary, 0o600);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** True if the file exists. Throws a CliFailure if other users can read it, or could have written it. */
async function privateFileExists(path: string): Promise<boolean> {
  const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") {
      return undefined;
    }
    throw new CliFailure(`${path} cannot be read: ${error.message}`, { cause: error });
  });
  if (stats === undefined) {
    return false;
  }
  const user = process.getuid?.();
  if (user !== undefined && (stats.mode & 0o077) !== 0) {
    throw new CliFailure(
      `${path} is open to other users of this machine, and may contain tokens. Protect it with: chmod 600 '${path}'`,
    );
  }
  if (user !== undefined && user !== 0 && stats.uid !== user) {
    throw new CliFailure(
      `${path} belongs to another user of this machine: change its owner, or set XDG_CONFIG_HOME to a folder of your own.`,
    );
  }
  return true;
}
