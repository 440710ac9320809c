import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "@flowgate/client";
import { CliFailure, exitCodes } from "../failure.ts";
import { printable } from "../printable.ts";
import type { Connection } from "./connection.ts";
import { explainNetworkError } from "./explain-network-error.ts";
import { isChange } from "./failed-call.ts";

/** Converts the error of a call to a failure that says what to do. Other errors are returned as they are. */
export function explainError(error: unknown, connection: Connection): unknown {
  if (!(error instanceof ConnectError)) {
    return error;
  }
  const [info] = error.findDetails(ErrorInfoSchema);
  const explanation =
    info?.domain === "flowgate"
      ? explainReason(info.reason, error, connection)
      : (explainNetworkError(error, connection) ?? explainCode(error, connection));
  const outcome = isUnknown(error, info?.reason) ? ` ${unknownOutcome}` : "";
  // A lost connection is ABORTED too, but without a reason.
  const exitCode = conflicts.has(info?.reason ?? "") ? exitCodes.conflict : exitCodes.error;
  return new CliFailure(`${explanation}${outcome}`, { exitCode, cause: error });
}

const conflicts: ReadonlySet<string> = new Set(["version_mismatch", "precondition_failed", "merge_conflict"]);

const unknownOutcome =
  "It is not known whether the server has carried it out: see flowgate history or flowgate status before you repeat it.";

/** Whether a call with effects may have been carried out although it failed. */
function isUnknown(error: ConnectError, reason: string | undefined): boolean {
  if (!isChange(error)) {
    return false;
  }
  if (error.code === Code.DeadlineExceeded) {
    return true;
  }
  return reason === undefined && hasCode(error, /^(ECONNRESET|EPIPE|ERR_STREAM_PREMATURE_CLOSE|ETIMEDOUT)$/);
}

function hasCode(error: unknown, codes: RegExp): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    if ("code" in each && typeof each.code === "string" && codes.test(each.code)) {
      return true;
    }
  }
  return false;
}

/** An error that Flowgate itself answered with. */
function explainReason(reason: string, error: ConnectError, connection: Connection): string {
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
    case "overloaded":
    case "unavailable":
    case "temporarily_unavailable":
      return `${server}: ${message}${retryAfter(error)}`;
    case "misdirected_request":
      return `${server} does not accept this host name. ${message}`;
    case "internal":
      return `${server}: ${message} The log of the service has the cause.`;
    default:
      return message;
  }
}

function explainMissingLogin(reason: string, message: string, { server, token, tokenOrigin }: Connection): string {
  const login = `flowgate login --server ${server}`;
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
      return `${server} requires a login. ${message} Log in with: flowgate login --server ${server}`;
    case Code.Unavailable:
    case Code.ResourceExhausted:
      return `${server} is not available. ${message}${retryAfter(error)}`;
    case Code.Unimplemented:
      return `${server} does not know this operation: it is not Flowgate, or an older version. ${message} Check the URL, and the version with: flowgate get settings --server ${server}`;
    default:
      return `${server}: ${message}`;
  }
}

function retryAfter({ metadata }: ConnectError): string {
  const seconds = metadata.get("retry-after");
  return seconds !== null && /^\d{1,9}$/.test(seconds) ? ` Try again in ${seconds} s.` : " Try again later.";
}

/** The message with a capital letter and a full stop. */
function sentence({ rawMessage }: ConnectError): string {
  const text = printable(rawMessage === "" ? "the server gave no reason" : rawMessage);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
