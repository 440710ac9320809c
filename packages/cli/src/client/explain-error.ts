import { Code, ConnectError } from "@connectrpc/connect";
import {
  type ConcurrentChange,
  DeploymentErrorReason,
  DeploymentErrorSchema,
  ErrorInfoSchema,
  NodeChangeSchema,
} from "@flowgate/client";
import type { Reason } from "@flowgate/flows/errors";
import { CliFailure, exitCodes } from "../failure.ts";
import { printable } from "../printable.ts";
import { describeRevision, formatEnum } from "../output/values.ts";
import type { Connection } from "./connection.ts";
import { isChange } from "./session.ts";

/** Converts the error of a call to a failure that says what to do. Other errors are returned as they are. */
export async function explainError(error: unknown, connection: Connection): Promise<unknown> {
  if (!(error instanceof ConnectError)) {
    return error;
  }
  // An interceptor has failed with it, and the transport has wrapped it.
  if (error.cause instanceof CliFailure) {
    return error.cause;
  }
  const conflict = explainConflict(error);
  if (conflict !== undefined) {
    return conflict;
  }
  const [info] = error.findDetails(ErrorInfoSchema);
  const explanation =
    info?.domain === "flowgate"
      ? await explainReason(info.reason as Reason, error, connection)
      : (explainNetworkError(error, connection) ?? explainCode(error, connection));
  const outcome = isUnknown(error, info?.reason) ? ` ${unknownOutcome}` : "";
  // A lost connection is ABORTED too, but without a reason.
  const exitCode = conflicts.has(info?.reason ?? "") ? exitCodes.conflict : exitCodes.error;
  return new CliFailure(`${explanation}${outcome}`, { exitCode, cause: error });
}

const conflicts: ReadonlySet<string> = new Set<Reason>([
  "version_mismatch",
  "precondition_failed",
  "merge_conflict",
  "proposal_stale",
  "proposal_closed",
  "proposal_changed",
]);

const unknownOutcome =
  "It is not known whether the server has carried it out: see flowgate history or flowgate status before you repeat it.";

/** True if a call with effects may have been carried out although it failed. */
function isUnknown(error: ConnectError, reason: string | undefined): boolean {
  if (!isChange(error)) {
    return false;
  }
  if (error.code === Code.DeadlineExceeded) {
    return true;
  }
  return reason === undefined && hasCode(error, /^(ECONNRESET|EPIPE|ERR_STREAM_PREMATURE_CLOSE|ETIMEDOUT)$/);
}

/** True if Node has reported the error, or one of its causes, with such a code. */
export function hasCode(error: unknown, codes: RegExp): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if ("code" in each && typeof each.code === "string" && codes.test(each.code)) {
      return true;
    }
  }
  return false;
}

/** An error that Flowgate itself answered with. */
async function explainReason(reason: Reason, error: ConnectError, connection: Connection): Promise<string> {
  const { server } = connection;
  const message = sentence(error);
  switch (reason) {
    case "no_token":
    case "invalid_token":
      return explainMissingLogin(reason, message, connection);
    case "insufficient_scope":
      return `${message} Ask an administrator of ${server} for it, or log in as another user with flowgate login. flowgate whoami shows your permissions.`;
    case "version_mismatch":
    case "precondition_failed":
    case "merge_conflict":
      return `${message} See what was deployed in the meantime with flowgate history, and then deploy again.`;
    case "proposal_stale":
    case "proposal_closed":
    case "proposal_changed":
      return `${message} See it with flowgate proposal show.`;
    case "overloaded":
    case "unavailable":
    case "temporarily_unavailable":
      return `${server}: ${message}${retryAfter(error)}`;
    case "misdirected_request":
      return `${server} does not accept this host name: ${message}`;
    case "internal":
      return `${server}: ${message} The log of the service has the cause.`;
    default:
      return message;
  }
}

async function explainMissingLogin(reason: Reason, message: string, connection: Connection): Promise<string> {
  const { server, token, tokenOrigin } = connection;
  const login = `flowgate login --server ${server}`;
  const { hasLogins } = await import("./issuer-login.ts");
  if (!(await hasLogins(connection))) {
    return token === undefined
      ? `${server} requires a token of an issuer that it accepts, or a client certificate: set FLOWGATE_TOKEN. It has no logins.`
      : `${server} rejects the token. ${message} Set FLOWGATE_TOKEN to a valid one of an issuer that it accepts.`;
  }
  if (reason === "no_token" || token === undefined) {
    return tokenOrigin === "withheld"
      ? `${server} requires a login. FLOWGATE_TOKEN was not sent, since it belongs to FLOWGATE_SERVER, another server. Log in with: ${login}`
      : `${server} requires a login. Log in with: ${login}`;
  }
  return tokenOrigin === "environment"
    ? `${server} rejects the token in FLOWGATE_TOKEN. ${message} Set a valid one, or unset it and log in with: ${login}`
    : `The login at ${server} has ended. ${message} Log in again with: ${login}`;
}

/** An error that Flowgate did not write: the transport did, or a proxy. */
function explainCode(error: ConnectError, { server, timeoutMs }: Connection): string {
  const message = sentence(error);
  switch (error.code) {
    case Code.DeadlineExceeded: {
      const limit = timeoutMs === undefined ? "in time" : `within ${timeoutMs / 1000} s`;
      return `${server} did not answer ${limit}. Check that it is reachable, or wait longer with --timeout.`;
    }
    case Code.Unauthenticated:
      return `${server} requires a login: ${message} Log in with: flowgate login --server ${server}`;
    case Code.Unavailable:
    case Code.ResourceExhausted:
      return `${server} is not available: ${message}${retryAfter(error)}`;
    case Code.Unimplemented:
      return `${server} does not know this operation, since it is not Flowgate, or an older version: ${message} Check the URL, and the version with: flowgate status --server ${server}`;
    default:
      return `${server}: ${message}`;
  }
}

function retryAfter({ metadata }: ConnectError): string {
  const seconds = metadata.get("retry-after");
  return seconds !== null && /^\d{1,9}$/.test(seconds) ? ` Try again in ${seconds} s.` : " Try again later.";
}

/** The message with a full stop. Its first letter remains as it is: it may be that of a name. */
function sentence({ rawMessage }: ConnectError): string {
  const text = printable(rawMessage === "" ? "the server gave no reason" : rawMessage);
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Explains why there is no response of Flowgate. Undefined: there is one, or the error has no known cause. */
function explainNetworkError(error: ConnectError, connection: Connection): string | undefined {
  const code = codeOf(error);
  if (code !== undefined) {
    return explainNetworkCode(code, error, connection);
  }
  return isForeign(error)
    ? `${connection.server} answers, but is not Flowgate: ${printable(error.rawMessage)}. Check the URL and the port; a proxy must pass the path /flowgate.v1.*.`
    : undefined;
}

/** The code of the innermost error of Node that has one. */
function codeOf(error: Error): string | undefined {
  let code: string | undefined;
  for (let each: unknown = error; each instanceof Error; each = each.cause) {
    if ("code" in each && typeof each.code === "string") {
      code = each.code;
    }
  }
  return code;
}

/** An HTTP response without an error in the format of Connect. */
function isForeign({ rawMessage }: ConnectError): boolean {
  return /^HTTP \d{3}$|^unsupported content type|content-type|cannot decode|^Unexpected token|JSON/i.test(rawMessage);
}

function explainNetworkCode(code: string, error: ConnectError, { server, socketPath, tls }: Connection): string {
  switch (code) {
    case "ECONNREFUSED":
      return socketPath === undefined
        ? `No server listens on ${server}. Start one with flowgate serve, or name another with --server, FLOWGATE_SERVER or flowgate server use.`
        : `No server listens on ${server}. Start one with flowgate serve.`;
    case "ENOENT":
      return `There is no socket ${socketPath ?? server}. It is in the data directory of a running service, as flowgate.sock.`;
    case "EACCES":
    case "EPERM":
      return `This user may not open ${socketPath ?? server}. Only the user that the service runs as can: run this command as that user.`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `The host of ${server} is not known${code === "EAI_AGAIN" ? ", or the name server does not answer" : ""}. Check its name, and the network.`;
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "ETIMEDOUT":
      return `${server} cannot be reached. Check the network, and whether a VPN or a proxy is needed.`;
    case "ECONNRESET":
    case "EPIPE":
    case "ERR_STREAM_PREMATURE_CLOSE":
      return `The connection to ${server} was lost.${tls.cert === undefined ? "" : certificateHint}`;
    case "EPROTO":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_PACKET_LENGTH_TOO_LONG":
      return `${server} does not answer with TLS. Check the port, or use ${server.replace(/^https:/, "http:")} if it has none.`;
    default:
      if (code.startsWith("HPE_")) {
        return notHttp(server);
      }
      return explainCertificate(code, server) ?? `${server}: ${printable(error.rawMessage)} (${code}).`;
  }
}

/** With TLS 1.3, the server checks the certificate after the client has begun to send. Node's servers send no alert then. */
const certificateHint =
  " Check that it accepts the certificate of the client: some servers close the connection if not.";

function notHttp(server: string): string {
  return server.startsWith("http:")
    ? `${server} does not answer with HTTP. Check the port, or use ${server.replace(/^http:/, "https:")} if it has TLS.`
    : `${server} does not answer with HTTP. Check the port.`;
}

/** Describes the problem with the server's or the client's certificate. */
function explainCertificate(code: string, server: string): string | undefined {
  switch (code) {
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "UNABLE_TO_GET_ISSUER_CERT":
    case "UNABLE_TO_GET_ISSUER_CERT_LOCALLY":
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
    case "CERT_SIGNATURE_FAILURE":
      return `The certificate of ${server} is signed by itself, or by an authority that is not trusted here. Name the authority's certificate with --ca-file.`;
    case "CERT_HAS_EXPIRED":
      return `The certificate of ${server} has expired. Renew it at the server, or check the clock of this machine.`;
    case "CERT_NOT_YET_VALID":
      return `The certificate of ${server} is not valid yet. Check the clocks of the server and of this machine.`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `The certificate of ${server} is for another name. Use a name that it has in the URL, or state the expected one with --tls-server-name.`;
    case "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED":
    case "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE":
      return `${server} requires a certificate of the client. Name one with --cert-file and --key-file.`;
    default:
      return /^ERR_SSL_.*ALERT.*(CERTIFICATE|UNKNOWN_CA)/.test(code)
        ? `${server} rejects the certificate of the client (${code}). Name another with --cert-file and --key-file.`
        : undefined;
  }
}

/** The conflict of a deployment with another one, as a failure that says what to do. Undefined: the error is none. */
function explainConflict(error: ConnectError): CliFailure | undefined {
  const [details] = error.findDetails(DeploymentErrorSchema);
  if (details?.active === undefined || details.code === DeploymentErrorReason.IDEMPOTENCY_KEY_REUSED) {
    return undefined;
  }
  const { active, changes, changeCount, code } = details;
  const isUnmergeable = code === DeploymentErrorReason.MERGE_CONFLICT;
  const more = changeCount > changes.length ? [`  and ${changeCount - changes.length} more`] : [];
  return new CliFailure(
    [
      `Conflict: ${describeRevision(active)} is active. Nothing was deployed.`,
      ...changes.map((change) => `  ${describeChange(change)}`),
      ...more,
      isUnmergeable
        ? "Both changed the same nodes. Export the active flows, make your changes again, and deploy them."
        : `See what changed with flowgate show ${active.rev}. Then repeat with --merge to keep the changes of both, or without --rev to replace them.`,
    ].join("\n"),
    { exitCode: exitCodes.conflict, cause: error },
  );
}

function describeChange({ nodeId, type, name, yours, theirs, conflict }: ConcurrentChange): string {
  const sides = [
    yours === 0 ? undefined : `${formatEnum(NodeChangeSchema, yours)} by you`,
    theirs === 0 ? undefined : `${formatEnum(NodeChangeSchema, theirs)} by others`,
  ].filter((side) => side !== undefined);
  const label = name === "" ? "" : ` ${JSON.stringify(name)}`;
  const reason = conflict === "" ? "" : `: ${conflict}`;
  return printable(`${type}${label} (${nodeId}): ${sides.join(", ")}${reason}`);
}
