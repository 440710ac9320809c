import { spawn } from "node:child_process";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Configuration, TokenEndpointResponse } from "openid-client";
import { isConfidentialUrl } from "@flowgate/base/addresses";
import { CliFailure } from "../failure.ts";
import { printable } from "../printable.ts";
import { changeClientConfig, type SavedToken } from "./config.ts";
import type { Connection } from "./connection.ts";

/** A client of the command line at an issuer, as the server describes it. */
export type IssuerClient = {
  readonly name: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly scope: string;
  readonly parameters: Readonly<Record<string, string>>;
};

/** A token that an issuer has issued, and what renews it. */
export type IssuerToken = Pick<SavedToken, "token" | "expireTime" | "refreshToken" | "issuer" | "clientId">;

const metadataPath = "/.well-known/oauth-protected-resource";
const maxDocumentBytes = 64 * 1024;
const timeoutMs = 10_000;
/** A token is renewed when it is valid for no longer than this. */
const renewBeforeMs = 30_000;
/** If the issuer does not state it. */
const defaultLifetimeSeconds = 300;

/** The issuers at which people can log in to a server, according to its metadata (RFC 9728); none if it has no metadata. */
export async function findIssuers(connection: Connection): Promise<readonly IssuerClient[]> {
  const metadata = await readJson(connection, metadataPath);
  if (metadata === undefined) {
    return [];
  }
  const { resource, flowgate_clients: clients } = metadata;
  // Section 3.3: otherwise a server could ask for tokens of another one.
  if (connection.socketPath === undefined && resource !== connection.baseUrl) {
    throw new CliFailure(
      `${connection.server} names itself ${printable(String(resource))}: log in with flowgate login --server and that URL, if it is the server that you mean.`,
    );
  }
  return (Array.isArray(clients) ? clients : []).flatMap((client) => parseClient(client) ?? []);
}

function parseClient(value: unknown): IssuerClient | undefined {
  const { name, issuer, client_id: clientId, scope, parameters } = Object(value) as Record<string, unknown>;
  const isText = [name, issuer, clientId, scope].every((each) => typeof each === "string");
  const isConfidential = typeof issuer === "string" && isConfidentialUrl(issuer);
  const added = Object.entries(Object(parameters) as object).filter(([, each]) => typeof each === "string");
  return isText && isConfidential
    ? ({ name, issuer, clientId, scope, parameters: Object.fromEntries(added) } as IssuerClient)
    : undefined;
}

/** True if there is a way to log in to a server, which is assumed if it does not say. */
export async function hasLogins(connection: Connection): Promise<boolean> {
  try {
    const scheme = await readJson(connection, "/auth/login");
    return scheme === undefined || scheme["type"] !== undefined || (await findIssuers(connection)).length > 0;
  } catch {
    return true;
  }
}

/** A document of the server; undefined: it has none. */
async function readJson(
  { baseUrl, socketPath, tls }: Connection,
  path: string,
): Promise<Record<string, unknown> | undefined> {
  const url = `${baseUrl}${path}`;
  const text = await new Promise<string | undefined>((resolve, reject) => {
    const options = { ...(socketPath === undefined ? tls : { socketPath }), signal: AbortSignal.timeout(timeoutMs) };
    const request = (url.startsWith("https:") ? httpsRequest : httpRequest)(url, options, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes > maxDocumentBytes) {
          response.destroy(new Error("the document is too long"));
        }
      });
      response.on("error", reject);
      response.on("end", () => resolve(response.statusCode === 200 ? Buffer.concat(chunks).toString() : undefined));
    });
    request.on("error", reject);
    request.end();
  });
  try {
    return text === undefined ? undefined : (Object(JSON.parse(text)) as Record<string, unknown>);
  } catch (error) {
    if (error instanceof SyntaxError) {
      return undefined;
    }
    throw error;
  }
}

/** Lets a person log in at an issuer, in a browser on any device (RFC 8628), and waits until that is done. */
export async function logInAtIssuer(client: IssuerClient, { opensBrowser }: { readonly opensBrowser: boolean }) {
  const openid = await import("openid-client");
  const { issuer, clientId, scope, parameters } = client;
  return atIssuer(issuer, async () => {
    const configuration = await configure(issuer, clientId);
    const device = await openid.initiateDeviceAuthorization(configuration, { ...parameters, scope });
    const url = device.verification_uri_complete ?? device.verification_uri;
    if (!isConfidentialUrl(url)) {
      throw new CliFailure(`${issuer} answers with a page that is not https: ${printable(url)}`);
    }
    process.stderr.write(
      `To log in, open this page in a browser, on any device:\n\n  ${printable(url)}\n\nIt shows or asks for the code ${printable(device.user_code)}.\n`,
    );
    if (opensBrowser) {
      openBrowser(url);
    }
    return toToken(await openid.pollDeviceAuthorizationGrant(configuration, device), issuer, clientId);
  });
}

/** Returns a function that resolves with the token of a connection, renewed before it expires. */
export function createRenewal(connection: Pick<Connection, "server" | "token" | "login">): () => Promise<string> {
  let { login } = connection;
  let renewal: Promise<SavedToken> | undefined;
  return async () => {
    if (login === undefined || !isExpiring(login)) {
      return login?.token ?? connection.token ?? "";
    }
    renewal ??= renew(connection.server).finally(() => (renewal = undefined));
    login = await renewal;
    return login.token;
  };
}

function isExpiring({ refreshToken, expireTime }: SavedToken): boolean {
  return refreshToken !== undefined && Date.parse(expireTime) - Date.now() <= renewBeforeMs;
}

/** Renews the stored token of a server, unless another command has done it: issuers end a login whose refresh token is used twice. */
async function renew(server: string): Promise<SavedToken> {
  let renewed: SavedToken | undefined;
  await changeClientConfig(process.env, async ({ tokens }) => {
    renewed = Object.hasOwn(tokens, server) ? tokens[server] : undefined;
    if (renewed === undefined || !isExpiring(renewed)) {
      return [];
    }
    const { refreshToken = "", issuer = "", clientId = "" } = renewed;
    const openid = await import("openid-client");
    const response = await atIssuer(issuer, async () => {
      try {
        return await openid.refreshTokenGrant(await configure(issuer, clientId), refreshToken);
      } catch (error) {
        throw error instanceof openid.ResponseBodyError && error.error === "invalid_grant"
          ? endedLogin(server, error)
          : error;
      }
    });
    renewed = { ...renewed, ...toToken(response, issuer, clientId) };
    return [{ path: ["tokens", server], value: renewed }];
  });
  if (renewed === undefined) {
    throw endedLogin(server);
  }
  return renewed;
}

function endedLogin(server: string, cause?: unknown): CliFailure {
  return new CliFailure(`The login at ${server} has ended. Log in again with: flowgate login --server ${server}`, {
    cause,
  });
}

/** Revokes the refresh token of a login at its issuer, if that is possible there. */
export async function revokeAtIssuer({ issuer = "", clientId = "", refreshToken }: SavedToken): Promise<void> {
  if (refreshToken === undefined) {
    return;
  }
  const openid = await import("openid-client");
  await atIssuer(issuer, async () => {
    const configuration = await configure(issuer, clientId);
    if (configuration.serverMetadata().revocation_endpoint !== undefined) {
      await openid.tokenRevocation(configuration, refreshToken);
    }
  });
}

async function configure(issuer: string, clientId: string): Promise<Configuration> {
  const openid = await import("openid-client");
  const url = new URL(issuer);
  const execute = url.protocol === "http:" ? [openid.allowInsecureRequests] : [];
  return openid.discovery(url, clientId, {}, openid.None(), { execute, timeout: timeoutMs / 1000 });
}

function toToken(response: TokenEndpointResponse, issuer: string, clientId: string): IssuerToken {
  const { access_token: token, refresh_token: refreshToken, expires_in: seconds = defaultLifetimeSeconds } = response;
  const expireTime = new Date(Date.now() + seconds * 1000).toISOString();
  return { token, expireTime, issuer, clientId, ...(refreshToken !== undefined && { refreshToken }) };
}

/** Explains the errors of requests to an issuer. */
async function atIssuer<T>(issuer: string, send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (error instanceof CliFailure) {
      throw error;
    }
    const { cause, code, message, error: answer } = error as Error & { code?: string; error?: string };
    const reason = answer ?? (cause as { code?: string } | undefined)?.code ?? code ?? message;
    throw new CliFailure(`${reasons[reason] ?? "There was no login"} at ${issuer}: ${printable(reason)}.`, {
      cause: error,
    });
  }
}

const reasons: Readonly<Record<string, string>> = {
  access_denied: "The login was refused",
  expired_token: "The login has taken too long",
};

/** Opens a page in the browser of this machine. The page was printed too, in case there is none. */
function openBrowser(url: string): void {
  const [program, ...args] = browsers[process.platform] ?? ["xdg-open"];
  const child = spawn(program ?? "", [...args, url], { stdio: "ignore", detached: true });
  child.on("error", () => {});
  child.unref();
}

/** Not by a shell, which would interpret the URL. */
const browsers: Readonly<Record<string, readonly [string, ...string[]]>> = {
  darwin: ["open"],
  win32: ["rundll32", "url.dll,FileProtocolHandler"],
};
