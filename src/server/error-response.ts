import { STATUS_CODES } from "node:http";
import type { TranscodingResponse } from "@flowgate/transcoding/server";

/** What a refused request is told, outside of any RPC: what was wrong, and what to do about it. */
type Refusal = { code: string; message: string };

/** Where a status says more than the fallback: a bad request, or an internal error. */
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

function errorOf(status: number, message: string, code = reasons[status]): Refusal {
  return { code: code ?? (status < 500 ? "invalid_request" : "internal"), message };
}

/** The response to a refused request. */
export function errorResponse(
  status: number,
  message: string,
  { headers = {}, code }: { headers?: Readonly<Record<string, string>>; code?: string | undefined } = {},
): TranscodingResponse {
  return {
    status,
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(errorOf(status, message, code)),
  };
}

/** The whole of an HTTP/1 response, for a request that could not be parsed and so has none. */
export function formatErrorResponse(status: number, message: string): string {
  const body = JSON.stringify(errorOf(status, message));
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    "Connection: close",
    "",
    body,
  ].join("\r\n");
}
