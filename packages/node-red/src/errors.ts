import type { IncomingHttpHeaders } from "node:http";
import type { FastifyInstance, FastifyReply } from "fastify";
import type { Logger } from "pino";
import { Code, ConnectError } from "@connectrpc/connect";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import { headersOf, internalMessage, toConnectError } from "../../../src/server/pipeline/errors.ts";

/** What Node-RED's tools expect of an error: a status, and `{code, message}`, which are absent for a lack of authorization. */
type Failure = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: { readonly code: string; readonly message: string } | undefined;
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

const ownStatuses: Readonly<Partial<Record<Reason, number>>> = { misdirected_request: 421, payload_too_large: 413 };

/** Those that Node-RED has another name for. */
const ownCodes: Readonly<Partial<Record<Reason, string>>> = { module_in_use: "type_in_use" };

/** As Node-RED, it answers all of these with 401 and without a body. */
const unauthorized: ReadonlySet<Reason> = new Set([
  "no_token",
  "invalid_token",
  "invalid_identity",
  "insufficient_scope",
]);

/** Errors that Fastify throws before a handler runs, by their status. */
const rejections: Readonly<Record<number, readonly [code: string, message: string]>> = {
  400: ["invalid_request", "the request is malformed: send valid JSON, or what the route expects"],
  404: ["not_found", "Node-RED's admin API has no such path here"],
  405: ["method_not_allowed", "the path does not support this method"],
  408: ["request_timeout", "the request took too long to arrive"],
  413: ["payload_too_large", "the body is larger than this route permits"],
  414: ["path_too_long", "the path is too long"],
  415: ["unsupported_media_type", "Content-Type: send application/json"],
  431: ["headers_too_large", "the header is too large"],
  503: ["unavailable", "the service is closing"],
};

/** Makes the errors of all routes those of Node-RED. Errors that a caller can't act on are logged, and reveal nothing. */
export function handleErrors(app: FastifyInstance, log: Logger): void {
  app.setErrorHandler((error, request, reply) => {
    const { status, headers, body } = toFailure(error, request.id, log);
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

/** Sends the error of a request that no handler has seen. */
export function sendError(reply: FastifyReply, status: number): void {
  const [code, message] = rejections[status] ?? ["invalid_request", "the request is malformed"];
  reply.status(status).send({ code, message });
}

/** Whether the body of a request takes more than a few packets, or is of unknown length. */
function hasLongBody({ "content-length": length, "transfer-encoding": encoding }: IncomingHttpHeaders): boolean {
  return encoding !== undefined || Number(length ?? 0) > 64 * 1024;
}

function toFailure(error: unknown, requestId: string, log: Logger): Failure {
  if (error instanceof FlowgateError) {
    const { reason, message } = error;
    const headers = headersOf(error);
    return unauthorized.has(reason)
      ? { status: 401, headers, body: undefined }
      : { status: statusOf(error), headers, body: { code: ownCodes[reason] ?? reason, message } };
  }
  if (error instanceof NodeRedError) {
    const { status, code, message } = error;
    return { status, headers: {}, body: { code, message } };
  }
  const { statusCode } = Object(error) as { readonly statusCode?: unknown };
  const rejection =
    typeof statusCode === "number" && !(error instanceof ConnectError) ? rejections[statusCode] : undefined;
  if (rejection !== undefined) {
    const [code, message] = rejection;
    return { status: statusCode as number, headers: {}, body: { code, message } };
  }
  log.error({ requestId, err: error }, "a request of Node-RED's admin API failed unexpectedly");
  return { status: 500, headers: {}, body: { code: "internal", message: internalMessage(requestId) } };
}

function statusOf(error: FlowgateError): number {
  return ownStatuses[error.reason] ?? statuses[toConnectError(error).code] ?? 400;
}
