import { resolve } from "node:path";
import { CliFailure, usageFailure } from "../failure.ts";
import { assertConfidential } from "./assert-confidential.ts";
import type { ClientConfig, Context } from "./config.ts";
import { clientConfigPath } from "./config.ts";
import { readClientConfig } from "./config-store.ts";
import type { Connection } from "./connection.ts";
import type { ConnectionFlags } from "./connection-options.ts";
import { isReadable, parseServer } from "./parse-server.ts";

const defaultServer = "http://127.0.0.1:8080";

type Environment = Readonly<Record<string, string | undefined>>;

/** Finds the server and its token: in the flags, then in the environment, then in the configuration of the client. */
export async function resolveConnection(flags: ConnectionFlags, environment: Environment): Promise<Connection> {
  const config = await readClientConfig(environment);
  const context = { ...findContext(flags, environment, config), ...contextFlags(flags) };
  const { origin } = context;
  const server = parseServer(context.server, origin);
  const tls = await resolveTls(server.server, context);
  const timeoutMs = readTimeout(flags.timeout);
  const connection = {
    ...server,
    ...findToken(server.server, environment, config),
    tls,
    isInsecure: isReadable(server.server) && context.insecureAllowHttp !== true,
    ...(timeoutMs !== undefined && { timeoutMs }),
  };
  if (connection.token !== undefined) {
    assertConfidential(connection, "token");
  }
  return connection;
}

/** The fields of a context that flags set. */
export function contextFlags(flags: ConnectionFlags): Partial<Context> {
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

function findContext(
  flags: ConnectionFlags,
  environment: Environment,
  config: ClientConfig,
): Context & { readonly origin: string } {
  if (flags.server !== undefined && flags.context !== undefined) {
    throw usageFailure("--server and --context both name a server: specify one of them.");
  }
  if (flags.server !== undefined) {
    return { server: flags.server, origin: "--server" };
  }
  if (flags.context !== undefined) {
    return contextNamed(flags.context, "--context", environment, config);
  }
  const { FLOWGATE_SERVER: server = "", FLOWGATE_CONTEXT: name = "" } = environment;
  if (server !== "") {
    return { server, origin: "FLOWGATE_SERVER" };
  }
  if (name !== "") {
    return contextNamed(name, "FLOWGATE_CONTEXT", environment, config);
  }
  if (config.currentContext === undefined) {
    return { server: defaultServer, origin: "the default" };
  }
  return contextNamed(config.currentContext, "currentContext", environment, config);
}

function contextNamed(
  name: string,
  origin: string,
  environment: Environment,
  { contexts }: ClientConfig,
): Context & { readonly origin: string } {
  const context = Object.hasOwn(contexts, name) ? contexts[name] : undefined;
  if (context === undefined) {
    const names = Object.keys(contexts);
    throw new CliFailure(
      `${origin}: there is no context ${name} in ${clientConfigPath(environment)}. ` +
        (names.length === 0 ? "Add it with flowgate context add." : `There are: ${names.join(", ")}.`),
    );
  }
  return { ...context, origin: `context ${name}` };
}

async function resolveTls(server: string, context: Context): Promise<Connection["tls"]> {
  const { caFile, certFile, keyFile, tlsServerName, insecureSkipTlsVerify } = context;
  const isUsed = [caFile, certFile, keyFile, tlsServerName, insecureSkipTlsVerify].some((value) => value !== undefined);
  if (!isUsed) {
    return {};
  }
  if (!server.startsWith("https:")) {
    throw new CliFailure(
      `${server} has no TLS: use an https:// URL, or remove the TLS flags or the TLS settings of the context.`,
    );
  }
  if (insecureSkipTlsVerify === true) {
    process.stderr.write(
      `flowgate: warning: the certificate of ${server} is not checked, because --insecure-skip-tls-verify or insecureSkipTlsVerify of the context is set. Others could read and change what is sent.\n`,
    );
  }
  const { readTls } = await import("./read-tls.ts");
  return readTls(context);
}

/** A token is sent to the server only that it belongs to. */
function findToken(
  server: string,
  environment: Environment,
  { tokens }: ClientConfig,
): Pick<Connection, "token" | "tokenOrigin"> {
  const token = (environment["FLOWGATE_TOKEN"] ?? "").trim();
  const stored = Object.hasOwn(tokens, server) ? tokens[server] : undefined;
  if (token !== "" && isForServer(server, environment)) {
    if (!/^[\x21-\x7e]+$/.test(token)) {
      throw new CliFailure("FLOWGATE_TOKEN: this is not a token: it contains spaces or characters that no token has.");
    }
    return { token, tokenOrigin: "environment" };
  }
  if (stored !== undefined) {
    return { token: stored.token, tokenOrigin: "login" };
  }
  return token === "" ? {} : { tokenOrigin: "withheld" };
}

/** FLOWGATE_TOKEN belongs to FLOWGATE_SERVER, or to whichever server is used if that is not set. */
function isForServer(server: string, { FLOWGATE_SERVER: configured = "" }: Environment): boolean {
  return configured === "" || parseServer(configured, "FLOWGATE_SERVER").server === server;
}

function readTimeout(text: string | undefined): number | undefined {
  if (text === undefined) {
    return undefined;
  }
  const seconds = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || seconds <= 0 || seconds > 86_400) {
    throw usageFailure("--timeout: must be a number of seconds up to 86400, such as 30.");
  }
  return Math.ceil(seconds * 1000);
}
