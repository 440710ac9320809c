import { DatabaseError } from "pg";
import { FlowgateError } from "@flowgate/flows/errors";
import { RefusedAuthentication } from "./authentication.ts";

/** The effect of an error on the connection and the caller. */
export type Failure =
  /** The server can't be reached, is shutting down, or is not the primary: another one may be. */
  | "connection"
  /** The server is reachable, but can't do it now. */
  | "busy"
  /** Its disk is full, or it is damaged. */
  | "storage"
  /** A constraint, a limit of this program, or an error in it. */
  | "other";

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const failures: readonly [RegExp, Failure][] = [
  // Connection exceptions, and errors of a server that is shutting down, starting or was promoted or demoted.
  [/^08|^57P0[1-5]$|^25006$|^25P0[34]$|^0B000$/, "connection"],
  // A removed database, role or schema, and missing privileges, can be repaired without a restart.
  [/^3D000$|^28|^42501$|^3F000$|^42P01$/, "connection"],
  // Timeouts, deadlocks, serialization failures, and too many connections.
  [/^57014$|^55P03$|^40|^53300$|^53200$/, "busy"],
  [/^53100$|^58|^XX|^57P06$/, "storage"],
];

export function classify(error: unknown): Failure {
  if (error instanceof DatabaseError) {
    return failures.find(([codes]) => codes.test(error.code ?? ""))?.[1] ?? "other";
  }
  if (!(error instanceof Error) || error instanceof FlowgateError) {
    return "other";
  }
  if (/timeout exceeded when trying to connect/.test(error.message)) {
    // All connections of the pool were in use.
    return "busy";
  }
  // The driver's own errors have no code. Socket and name resolution errors have the system's code, and a host with
  // several addresses has one for each.
  return "syscall" in error ||
    error instanceof AggregateError ||
    error instanceof RefusedAuthentication ||
    isConnectionMessage(error.message) ||
    isTlsError(error)
    ? "connection"
    : "other";
}

function isConnectionMessage(message: string): boolean {
  return /connection terminated|connection ended|not queryable|^SASL:|connection error|timeout expired|read timeout|SSL connection|after calling end on the pool/i.test(
    message,
  );
}

export function isTimeout(error: unknown): boolean {
  return error instanceof Error && /timeout/i.test(error.message) && classify(error) === "connection";
}

function isTlsError(error: Error): boolean {
  return "code" in error && /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(String(error.code));
}

export function unavailable(message: string): FlowgateError {
  return new FlowgateError("unavailable", message, { retryAfterMs: 1000 });
}

/** Converts an error that callers can act on to a `FlowgateError`; returns other errors unchanged. */
export function toFlowgateError(error: unknown): unknown {
  switch (classify(error)) {
    case "connection":
      return unavailable("the database is not available: try again");
    case "busy":
      return unavailable("the database is busy: try again");
    case "storage":
      return unavailable("the database's storage has failed or is full: make room and try again");
    default:
      return error;
  }
}

/** The server is a standby, or was replaced by one. */
export class NotPrimary extends Error {}

/** By the code of PostgreSQL, of the system or of OpenSSL. */
const descriptions: readonly [RegExp, string][] = [
  [/^28/, "the database rejects the user or the password: check them in the store's URL, or PGUSER and PGPASSWORD"],
  [/^3D000$/, "the database that the store's URL names does not exist: create it"],
  [
    /^42501$/,
    "the user of the store lacks privileges: grant it CREATE on the database, or make it the owner of the schema flowgate",
  ],
  [
    /^53300$/,
    "the database has too many connections: raise its max_connections, or lower pool_size in the store's URL",
  ],
  [/^57P0[1-3]$/, "the database is starting or stopping"],
  [
    /^ECONNREFUSED$/,
    "no database accepts connections at the address of the store: check that it runs, and the host and port in the store's URL",
  ],
  [
    /^ENOTFOUND$|^EAI_AGAIN$/,
    "the host of the store can't be resolved: check the host in the store's URL, and the name server",
  ],
  [/^ETIMEDOUT$|^EHOSTUNREACH$|^ENETUNREACH$/, "the database does not respond"],
  [
    /^ERR_TLS|CERT|^UNABLE_TO|SELF_SIGNED/,
    "the certificate of the database is not trusted: set sslrootcert in the store's URL to the certificate of its CA",
  ],
];

/** For operators, and public: without addresses and names. Of several servers, the first one that is no standby counts. */
export function describe(error: unknown): string {
  const errors: unknown[] = error instanceof AggregateError ? error.errors : [error];
  const [first] = errors.filter((each) => !(each instanceof NotPrimary));
  if (first === undefined) {
    return "no server of the store is a primary";
  }
  if (first instanceof RefusedAuthentication) {
    return first.message;
  }
  const { code = "", message = "" } = first as { readonly code?: string; readonly message?: string };
  if (/does not support SSL/i.test(message)) {
    return "the database does not support TLS: enable it there, or add sslmode=disable to the store's URL";
  }
  if (/establishing an SSL/i.test(message)) {
    return "the server at the address of the store is not PostgreSQL: check the host and port in the store's URL";
  }
  if (message.startsWith("SASL: SCRAM-SERVER-FINAL")) {
    return "the server at the address of the store does not know the password: another program may listen there";
  }
  if (message.startsWith("SASL:")) {
    return "the database asks for a password by SCRAM-SHA-256, which failed: check that the store's URL, or PGPASSWORD, has one";
  }
  // From the driver, including timeouts of the connection.
  if (/timeout|connection terminated/i.test(message)) {
    return "the database does not respond, or has ended the connection";
  }
  const found = descriptions.find(([codes]) => codes.test(code));
  return found?.[1] ?? `the database is not available${code === "" ? "" : ` (${code})`}`;
}
