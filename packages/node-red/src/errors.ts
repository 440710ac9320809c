import type { IncomingHttpHeaders } from "node:http";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "@flowgate/client";
import type { FastifyInstance } from "fastify";
import type { Host } from "./host.ts";

/** The form in which Node-RED's tools expect an error: a status, and `{code, message}`, absent if authorization is missing. */
type Failure = {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: { readonly code: string; readonly message: string };
};

/** An error that Node-RED's tools know by its code, with the status and the message of Node-RED. */
export class NodeRedError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = "NodeRedError";
    this.status = status;
    this.code = code;
  }
}

const statuses: Readonly<Partial<Record<Code, number>>> = {
  [Code.NotFound]: 404,
  [Code.Aborted]: 409,
  [Code.PermissionDenied]: 403,
  [Code.ResourceExhausted]: 429,
  [Code.Unauthenticated]: 401,
  [Code.Unavailable]: 503,
  [Code.DeadlineExceeded]: 504,
  [Code.Internal]: 500,
};

/** Statuses of reasons, which take precedence over those of codes. */
const ownStatuses: Readonly<Record<string, number>> = { misdirected_request: 421, payload_too_large: 413 };

/** Reasons that Node-RED has another name for. */
const ownCodes: Readonly<Record<string, string>> = { module_in_use: "type_in_use" };

/** As Node-RED, it answers all of these with 401 and without a body. */
const unauthorized: ReadonlySet<string> = new Set([
  "no_token",
  "invalid_token",
  "invalid_identity",
  "insufficient_scope",
]);

/** Errors that Fastify throws before a handler runs, by their status; others are malformed requests. */
const rejections: Readonly<Record<number, readonly [code: string, message: string]>> = {
  413: ["payload_too_large", "the body is larger than this route permits"],
  414: ["path_too_long", "the path is too long"],
  415: ["unsupported_media_type", "Content-Type: send application/json"],
};

/** Makes the errors of all routes those of Node-RED. */
export function handleErrors(app: FastifyInstance, host: Pick<Host, "toConnectError">): void {
  app.setErrorHandler((error, request, reply) => {
    const { status, headers = {}, body } = toFailure(error) ?? toOwn(host.toConnectError(error, request));
    reply.status(status).headers(headers);
    // Otherwise the connection would take the rest of a body that was refused.
    if (hasLongBody(request.headers)) {
      reply.header("connection", "close");
    }
    return reply.send(body && { ...body, message: withoutMarkup(body.message) });
  });
}

/** The editor inserts messages of errors into its page as HTML, and they can contain names that flows and modules have chosen. */
export function withoutMarkup(message: string): string {
  return message.replaceAll("<", "‹");
}

/** True for bodies that take more than a few packets, or are of unknown length. */
function hasLongBody({ "content-length": length, "transfer-encoding": encoding }: IncomingHttpHeaders): boolean {
  return encoding !== undefined || Number(length ?? 0) > 64 * 1024;
}

/** Undefined: it is not an error of a route or of Fastify. */
function toFailure(error: unknown): Failure | undefined {
  if (error instanceof NodeRedError) {
    const { status, code, message } = error;
    return { status, body: { code, message } };
  }
  const { statusCode: status } = Object(error) as { readonly statusCode?: unknown };
  if (error instanceof ConnectError || typeof status !== "number" || status < 400 || status > 499) {
    return undefined;
  }
  const malformed = [
    "invalid_request",
    "the request is malformed: send valid JSON, or what the route expects",
  ] as const;
  const [code, message] = rejections[status] ?? malformed;
  return { status, body: { code, message } };
}

function toOwn(error: ConnectError): Failure {
  const [{ reason } = { reason: "internal" }] = error.findDetails(ErrorInfoSchema);
  const headers = Object.fromEntries(error.metadata);
  if (unauthorized.has(reason)) {
    return { status: 401, headers };
  }
  const status = ownStatuses[reason] ?? statuses[error.code] ?? 400;
  return { status, headers, body: { code: ownCodes[reason] ?? reason, message: error.rawMessage } };
}
