import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { CliFailure } from "../failure.ts";

/** What the configuration file of the client contains. */
export type ClientConfig = {
  /** The context to use unless another server or context is named. */
  readonly currentContext?: string;
  readonly contexts: Readonly<Record<string, Context>>;
  /** By the URL of their server, to which alone they are sent. */
  readonly tokens: Readonly<Record<string, StoredToken>>;
};

/** A server, and how to reach it. Paths are absolute. */
export type Context = {
  readonly server: string;
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  readonly tlsServerName?: string;
  readonly insecureSkipTlsVerify?: boolean;
  readonly insecureAllowHttp?: boolean;
};

type StoredToken = {
  readonly token: string;
  readonly user: string;
  /** RFC 3339. */
  readonly expireTime: string;
};

type Environment = Readonly<Record<string, string | undefined>>;

/** The path of the file, by the XDG Base Directory Specification. */
export function clientConfigPath(environment: Environment): string {
  const configured = environment["XDG_CONFIG_HOME"] ?? "";
  return join(isAbsolute(configured) ? configured : join(homedir(), ".config"), "flowgate/config.yaml");
}

/** Throws a CliFailure that names the path of the first invalid value. */
export function parseClientConfig(content: Readonly<Record<string, unknown>>, path: string): ClientConfig {
  const known = new Set(["currentContext", "contexts", "tokens"]);
  const unknown = Object.keys(content).find((key) => !known.has(key));
  if (unknown !== undefined) {
    throw new CliFailure(`${path}: ${unknown}: unknown key`);
  }
  const currentContext = content["currentContext"];
  if (currentContext !== undefined && typeof currentContext !== "string") {
    throw new CliFailure(`${path}: currentContext: must be the name of a context`);
  }
  return {
    ...(currentContext !== undefined && { currentContext }),
    contexts: readEntries<Context>(content["contexts"], `${path}: contexts`, contextFields, ["server"]),
    tokens: readEntries<StoredToken>(content["tokens"], `${path}: tokens`, tokenFields, Object.keys(tokenFields)),
  };
}

const contextFields = {
  server: "string",
  caFile: "string",
  certFile: "string",
  keyFile: "string",
  tlsServerName: "string",
  insecureSkipTlsVerify: "boolean",
  insecureAllowHttp: "boolean",
} as const satisfies Record<keyof Context, string>;

const tokenFields = { token: "string", user: "string", expireTime: "string" } as const satisfies Record<
  keyof StoredToken,
  string
>;

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
