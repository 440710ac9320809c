import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { hostOf, isLoopback } from "@flowgate/base/addresses";
import { CliFailure, UsageFailure } from "../failure.ts";
import { type ClientConfig, type SavedServer, readClientConfig, type SavedToken } from "./config.ts";
import type { ConnectionFlags } from "./connection-flags.ts";

/** A server, and how to reach it. */
export type Connection = {
  /** A URL, or `unix:` and a path: for messages, and as the key of tokens. */
  readonly server: string;
  /** The values of `--server` and the flags beside it; absent without this flag. */
  readonly named?: NamedServer;
  readonly baseUrl: string;
  /** Of a Unix socket. */
  readonly socketPath?: string;
  readonly token?: string;
  readonly tokenOrigin?: TokenOrigin;
  /** The stored login that `token` is from. */
  readonly login?: SavedToken;
  readonly tls: TlsOptions;
  /** True if passwords and tokens must not be sent, since they could be read on the network. */
  readonly isInsecure: boolean;
  readonly timeoutMs?: number;
};

/** With its name if it is a saved one. */
export type NamedServer = SavedServer & { readonly name?: string };

/** Where the token comes from: the environment, or `flowgate login`. `withheld`: the environment, for another server. */
type TokenOrigin = "environment" | "login" | "withheld";

type TlsOptions = {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly servername?: string;
  readonly rejectUnauthorized?: false;
};

const defaultServer = "http://127.0.0.1:8080";

type Environment = Readonly<Record<string, string | undefined>>;

/** Finds the server and its token: in the flags, then in the environment, then in the configuration of the client. */
export async function resolveConnection(flags: ConnectionFlags, environment: Environment): Promise<Connection> {
  const config = await readClientConfig(environment);
  const { name, origin, ...saved } = findServer(flags, environment, config);
  const found = { ...saved, ...serverFlags(flags) };
  const server = parseServer(found.server, origin, Object.keys(config.servers));
  const tls = await resolveTls(server.server, found);
  const timeoutMs = readTimeout(flags.timeout);
  const connection = {
    ...server,
    ...(flags.server !== undefined && {
      named: { server: server.server, ...serverFlags(flags), ...(name !== undefined && { name }) },
    }),
    ...findToken(server.server, environment, config),
    tls,
    isInsecure: isReadable(server.server) && found.insecureAllowHttp !== true,
    ...(timeoutMs !== undefined && { timeoutMs }),
  };
  if (connection.token !== undefined) {
    assertConfidential(connection, "token");
  }
  return connection;
}

/** The fields of a server that flags set. */
export function serverFlags(flags: ConnectionFlags): Partial<SavedServer> {
  const { caFile, certFile, keyFile, tlsServerName, insecureSkipTlsVerify, insecureAllowHttp } = flags;
  return {
    ...(caFile !== undefined && { caFile: resolve(caFile) }),
    ...(certFile !== undefined && { certFile: resolve(certFile) }),
    ...(keyFile !== undefined && { keyFile: resolve(keyFile) }),
    ...(tlsServerName !== undefined && { tlsServerName }),
    ...(insecureSkipTlsVerify && { insecureSkipTlsVerify }),
    ...(insecureAllowHttp && { insecureAllowHttp }),
  };
}

/** `origin` is for messages. */
type FoundServer = NamedServer & { readonly origin: string };

function findServer(flags: ConnectionFlags, environment: Environment, config: ClientConfig): FoundServer {
  const { FLOWGATE_SERVER: server = "", FLOWGATE_CONTEXT: renamed = "" } = environment;
  if (renamed !== "") {
    throw new CliFailure("FLOWGATE_CONTEXT is called FLOWGATE_SERVER now, which takes names too.");
  }
  const { servers, currentServer } = config;
  if (flags.server !== undefined) {
    return lookUp(flags.server, "--server", servers);
  }
  if (server !== "") {
    return lookUp(server, "FLOWGATE_SERVER", servers);
  }
  return currentServer === undefined
    ? { server: defaultServer, origin: "the default" }
    : lookUp(currentServer, "currentServer", servers);
}

/** The saved server of this name, or the one at this URL. */
function lookUp(text: string, origin: string, servers: ClientConfig["servers"]): FoundServer {
  const saved = Object.hasOwn(servers, text) ? servers[text] : undefined;
  return saved === undefined ? { server: text, origin } : { ...saved, name: text, origin: `server ${text}` };
}

async function resolveTls(server: string, saved: SavedServer): Promise<Connection["tls"]> {
  const { caFile, certFile, keyFile, tlsServerName, insecureSkipTlsVerify } = saved;
  const isUsed = [caFile, certFile, keyFile, tlsServerName, insecureSkipTlsVerify].some((value) => value !== undefined);
  if (!isUsed) {
    return {};
  }
  if (!server.startsWith("https:")) {
    throw new CliFailure(
      `${server} has no TLS: use an https:// URL, or remove the TLS flags or the TLS settings of the saved server.`,
    );
  }
  if (insecureSkipTlsVerify === true) {
    process.stderr.write(
      `flowgate: warning: the certificate of ${server} is not checked, because --insecure-skip-tls-verify or insecureSkipTlsVerify of the saved server is set. Others could read and change what is sent.\n`,
    );
  }
  return readTls(saved);
}

/** A token is sent to the server only that it belongs to. */
function findToken(
  server: string,
  environment: Environment,
  config: ClientConfig,
): Pick<Connection, "token" | "tokenOrigin" | "login"> {
  const token = (environment["FLOWGATE_TOKEN"] ?? "").trim();
  const stored = Object.hasOwn(config.tokens, server) ? config.tokens[server] : undefined;
  if (token !== "" && isForServer(server, environment, config)) {
    if (!/^[\x21-\x7e]+$/.test(token)) {
      throw new CliFailure("FLOWGATE_TOKEN: this is not a token: it contains spaces or characters that no token has.");
    }
    return { token, tokenOrigin: "environment" };
  }
  if (stored !== undefined) {
    return { token: stored.token, tokenOrigin: "login", login: stored };
  }
  return token === "" ? {} : { tokenOrigin: "withheld" };
}

/** FLOWGATE_TOKEN belongs to FLOWGATE_SERVER, or to whichever server is used if that is not set. */
function isForServer(
  server: string,
  { FLOWGATE_SERVER: configured = "" }: Environment,
  { servers }: ClientConfig,
): boolean {
  if (configured === "") {
    return true;
  }
  const found = lookUp(configured, "FLOWGATE_SERVER", servers);
  return parseServer(found.server, found.origin, Object.keys(servers)).server === server;
}

function readTimeout(text: string | undefined): number | undefined {
  if (text === undefined) {
    return undefined;
  }
  const seconds = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || seconds <= 0 || seconds > 86_400) {
    throw new UsageFailure("--timeout: must be a number of seconds up to 86400, such as 30.", "flowgate");
  }
  return Math.ceil(seconds * 1000);
}

const scheme = "unix:";

/**
 * Parses the URL of a server. The result names each server in one way only. `origin` is the flag or variable that has it, `saved` are the
 * names that it may have instead.
 */
export function parseServer(
  text: string,
  origin: string,
  saved: readonly string[] = [],
): Pick<Connection, "server" | "baseUrl" | "socketPath"> {
  if (text.startsWith(scheme) && text.length > scheme.length) {
    const socketPath = resolve(text.slice(scheme.length).replace(/^\/\/(?=\/)/, ""));
    return { server: `${scheme}${socketPath}`, baseUrl: "http://localhost", socketPath };
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    const names = saved.length === 0 ? "" : `, or the name of a saved one: ${saved.join(", ")}`;
    throw new CliFailure(
      `${origin}: this is not the URL of a server: ${text}. Specify one such as https://flowgate.example.com${suggest(text)}, or unix:/path/to/flowgate.sock${names}.`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new CliFailure(`${origin}: a URL must not contain a user or password: remove them, and use flowgate login.`);
  }
  if (url.search !== "" || url.hash !== "") {
    throw new CliFailure(`${origin}: the URL of a server has no ? or #: remove them.`);
  }
  const server = `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
  return { server, baseUrl: server };
}

/** True if others on the network could read what is sent to this server. */
function isReadable(server: string): boolean {
  if (!server.startsWith("http:")) {
    return false;
  }
  return !isLoopback(hostOf(new URL(server)));
}

/** A URL for a text such as `localhost:8080`. */
function suggest(text: string): string {
  const url = `http://${text}`;
  return /^[\w.-]+(:\d+)?$/.test(text) && URL.canParse(url) ? ` or ${url}` : "";
}

/** Throws a CliFailure if others on the network could read what is about to be sent. */
export function assertConfidential({ server, isInsecure }: Connection, secret: "password" | "token"): void {
  if (isInsecure) {
    throw new CliFailure(
      `The ${secret} was not sent: ${server} is not encrypted, and others on the network could read it. ` +
        "Use an https:// URL, or --insecure-allow-http in a network that encrypts by itself, such as a service mesh.",
    );
  }
}

/** Reads the certificates for a server with an https URL. */
async function readTls(saved: SavedServer): Promise<TlsOptions> {
  const { caFile, certFile, keyFile, tlsServerName, insecureSkipTlsVerify } = saved;
  if ((certFile === undefined) !== (keyFile === undefined)) {
    const [given, missing] = certFile === undefined ? ["--key-file", "--cert-file"] : ["--cert-file", "--key-file"];
    throw new CliFailure(`${given} needs ${missing} too: a certificate and its private key belong together.`);
  }
  const tls = {
    ...(caFile !== undefined && { ca: await readPem(caFile, "--ca-file", "CERTIFICATE") }),
    ...(certFile !== undefined && { cert: await readPem(certFile, "--cert-file", "CERTIFICATE") }),
    ...(keyFile !== undefined && { key: await readPem(keyFile, "--key-file", "PRIVATE KEY") }),
  };
  try {
    createSecureContext(tls);
  } catch (error) {
    const files = [caFile, certFile, keyFile].filter((file) => file !== undefined).join(", ");
    throw new CliFailure(`These certificates cannot be used: ${files}: ${(error as Error).message}.`, { cause: error });
  }
  return {
    ...tls,
    ...(tlsServerName !== undefined && { servername: tlsServerName }),
    ...(insecureSkipTlsVerify === true && { rejectUnauthorized: false as const }),
  };
}

async function readPem(path: string, flag: string, kind: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((error: Error) => {
    throw new CliFailure(`${flag}: ${path} cannot be read: ${error.message}.`, { cause: error });
  });
  if (!new RegExp(`-----BEGIN [A-Z ]*${kind}-----`).test(text)) {
    throw new CliFailure(`${flag}: ${path} contains no ${kind.toLowerCase()} in PEM format.`);
  }
  return text;
}
