import { readFileSync, statSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { hostOf, isLoopback } from "@flowgate/base/addresses";
import type { Endpoint } from "../store.ts";
import { type AuthMethod, type ServerConfig, authMethods } from "./authentication.ts";

export type Location = {
  /** The configurations of the servers, one of which is the primary. */
  readonly servers: readonly ServerConfig[];
  /** The maximum number of connections for queries. One more listens for changes, and one is for the journal. */
  readonly poolSize: number;
};

/** Named as in libpq, except for `pool_size`. */
const parameters = [
  "host",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "require_auth",
  "application_name",
  "pool_size",
] as const;
const sslModes = ["disable", "verify-full", "no-verify"] as const;
const defaultPort = 5_432;
const writableByOthers = 0o002;
const defaultPoolSize = "10";
/** The service uses two itself. The others are divided between authentication and other calls. */
const minPoolSize = 4;

/**
 * Parses `//user:password@host:port,host:port/database?parameters`, the part of the URL after its scheme. Without user,
 * password or database, the variables PGUSER, PGPASSWORD and PGDATABASE apply. Errors don't contain the URL, since it may contain
 * a password.
 */
export function parseLocation(location: string): Location {
  // A @ in the query would be that behind a password with an unescaped question mark.
  const [, credentials = "", hosts = "", path = "", query = ""] =
    /^\/\/([^/?#]*@)?([^/?#@]*)(\/[^?#]*)?(?:\?([^#@]*))?$/s.exec(location) ?? ["", "", ":"];
  const options = parseOptions(new URLSearchParams(query));
  const poolSize = Number(options.pool_size ?? defaultPoolSize);
  if (!Number.isInteger(poolSize) || poolSize < minPoolSize || poolSize > 1000) {
    throw new TypeError(`store: pool_size must be a whole number between ${minPoolSize} and 1000`);
  }
  return {
    servers: hosts.split(",").map((host) => parseServer(`postgres://${credentials}${host}${path}`, options)),
    poolSize,
  };
}

type UrlOptions = Partial<Record<(typeof parameters)[number], string>>;

function parseOptions(query: URLSearchParams): UrlOptions {
  // An ignored misspelling of sslmode would turn protection off.
  const unknown = query.keys().find((name) => !(parameters as readonly string[]).includes(name));
  if (unknown !== undefined) {
    throw new TypeError(`store: the parameter ${unknown} is unknown: use ${parameters.join(", ")}`);
  }
  const options: UrlOptions = Object.fromEntries(query);
  if (options.sslmode !== undefined && !(sslModes as readonly string[]).includes(options.sslmode)) {
    throw new TypeError(`store: sslmode must be one of: ${sslModes.join(", ")}`);
  }
  const methods = options.require_auth?.split(",") ?? [];
  if (!methods.every((method) => (authMethods as readonly string[]).includes(method))) {
    throw new TypeError(`store: require_auth must be one or more of: ${authMethods.join(", ")}`);
  }
  return options;
}

function parseServer(url: string, options: UrlOptions): ServerConfig {
  // A URL with credentials needs a host, which the parameter of this name replaces.
  const parsed = URL.parse(options.host === undefined ? url : url.replace(/(@|\/\/)(?=\/|$)/, "$1localhost"));
  if (parsed === null || (parsed.hostname === "" && options.host === undefined)) {
    throw new TypeError(
      "store: must have the form postgres://user:password@host:5432/database, where characters such as @ and / in the password are written as %40 and %2F",
    );
  }
  const host = options.host ?? hostOf(parsed);
  const isLocal = isFolder(host) || isLoopback(host);
  const ssl = toTls(options, isLocal);
  return {
    host,
    ...(parsed.port !== "" && { port: Number(parsed.port) }),
    ...(parsed.username !== "" && { user: decodeURIComponent(parsed.username) }),
    ...(parsed.password !== "" && { password: decodeURIComponent(parsed.password) }),
    ...(parsed.pathname.length > 1 && { database: decodeURIComponent(parsed.pathname.slice(1)) }),
    application_name: options.application_name ?? "flowgate",
    ssl,
    authMethods:
      (options.require_auth?.split(",") as AuthMethod[] | undefined) ??
      (isTrusted(host, ssl) ? authMethods : ["scram-sha-256"]),
  };
}

/** Returns the addresses of the servers. */
export function endpointsOf({ servers }: Location): Endpoint[] {
  return servers.map(({ host = "localhost", port = Number(process.env["PGPORT"] ?? defaultPort) }) =>
    isFolder(host) ? { socketFolder: host } : { host, port },
  );
}

/** The folder of a Unix socket. */
function isFolder(host: string): boolean {
  return host.startsWith("/");
}

/** True if no other program can take the place of the server: by its certificate, or since it can't create the server's socket. */
function isTrusted(host: string, ssl: ConnectionOptions | false): boolean {
  if (ssl !== false) {
    return ssl.rejectUnauthorized === true;
  }
  const folder = isFolder(host) ? statSync(host, { throwIfNoEntry: false }) : undefined;
  return folder !== undefined && (folder.mode & writableByOthers) === 0;
}

/** Encryption with a verified certificate, unless the server is local or another mode is asked for by name. */
function toTls({ sslmode, sslrootcert, sslcert, sslkey }: UrlOptions, isLocal: boolean): ConnectionOptions | false {
  if (sslmode === "disable" || (sslmode === undefined && isLocal)) {
    return false;
  }
  return {
    rejectUnauthorized: sslmode !== "no-verify",
    ...(sslrootcert !== undefined && { ca: readCertificate("sslrootcert", sslrootcert) }),
    ...(sslcert !== undefined && { cert: readCertificate("sslcert", sslcert) }),
    ...(sslkey !== undefined && { key: readCertificate("sslkey", sslkey) }),
  };
}

function readCertificate(parameter: string, path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    const { code = "unknown error" } = cause as NodeJS.ErrnoException;
    throw new Error(`store: the file that ${parameter} names can't be read (${code}): check its path and permissions`, {
      cause,
    });
  }
}
