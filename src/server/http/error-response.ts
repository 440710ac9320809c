import { STATUS_CODES } from "node:http";
import type { ErrorShape, GatewayError, GatewayResponse } from "@flowgate/gateway";

type ErrorBody = { code: string; message: string };

/** Codes of statuses; all others are `invalid_request` (4xx) or `internal` (5xx). */
const reasons: Readonly<Record<number, string>> = {
  404: "not_found",
  405: "method_not_allowed",
  408: "request_timeout",
  413: "payload_too_large",
  414: "path_too_long",
  415: "unsupported_media_type",
  417: "expectation_failed",
  431: "headers_too_large",
};

/** The format of the REST errors of RPCs: their code is the reason. */
export function formatError({ reason, message }: GatewayError): ErrorShape {
  return { body: { code: reason, message } satisfies ErrorBody };
}

function errorBody(status: number, message: string, code = reasons[status]): ErrorBody {
  return { code: code ?? (status < 500 ? "invalid_request" : "internal"), message };
}

/** The response to a request that is rejected outside of an RPC. */
export function errorResponse(
  status: number,
  message: string,
  { headers = {}, code }: { headers?: Readonly<Record<string, string>>; code?: string | undefined } = {},
): GatewayResponse {
  return {
    status,
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(errorBody(status, message, code)),
  };
}

/** A complete HTTP/1 response as text, for a request that could not be parsed and has no response object. */
export function formatErrorResponse(status: number, message: string): string {
  const body = JSON.stringify(errorBody(status, message));
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "X-Content-Type-Options: nosniff",
    "Connection: close",
    "",
    body,
  ].join("\r\n");
}
