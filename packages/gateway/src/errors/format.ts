import type { JsonValue } from "@bufbuild/protobuf";
import type { Code } from "@connectrpc/connect";
import { parseJsonText } from "../json/parse-json-text.ts";
import { isObject } from "../json/object.ts";
import { nameOfCode, protoNameOfCode } from "./codes.ts";
import type { ReportError } from "./report-error.ts";
import { isHeaderValue, jsonResponse, type GatewayResponse } from "../http/response.ts";

export type GatewayError = {
  readonly status: number;
  readonly code: Code;
  /**
   * A machine-readable reason: from a google.rpc.ErrorInfo detail, or the name of the code. For a request that was
   * rejected before a call, the reason of the RequestError.
   */
  readonly reason: string;
  readonly message: string;
  /** Response headers, such as the error's metadata or `Allow`, by lower-case name. They are sent in every format. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** The details of a ConnectError whose types are known, as JSON with `@type`. */
  details(): JsonValue[];
  /** The thrown value. It may contain internal information and must not be sent to clients. */
  readonly cause: unknown;
};

export type ErrorShape = {
  /** 400 to 599. Default: the status of the error. */
  readonly status?: number;
  /** Additional headers, by lower-case name. */
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** A string or Uint8Array is sent unchanged and requires a `content-type` header; any other value is sent as JSON. Absent: no body. */
  readonly body?: unknown;
};

/**
 * The format of error bodies: `{code, message, reason, details}`, RFC 9457, google.rpc.Status, Google's JSON format, or
 * a function.
 */
export type ErrorFormat = "plain" | "problem" | "status" | "google" | ((error: GatewayError) => ErrorShape);

export function createErrorFormatter(
  format: ErrorFormat,
  reportError: ReportError,
): (error: GatewayError) => GatewayResponse {
  if (typeof format === "function") {
    return (error) => {
      try {
        return customResponse(error, format(error));
      } catch (cause) {
        reportError(new Error("the function of the option errors must return {status?, headers?, body?}", { cause }));
        return jsonResponse(500, {}, { code: "internal", message: "internal error" });
      }
    };
  }
  switch (format) {
    case "plain":
      return plainResponse;
    case "problem":
      return problemResponse;
    case "status":
      return (error) => {
        const { status, code, message, headers } = error;
        return jsonResponse(status, { ...headers }, { code, message, details: error.details() });
      };
    case "google":
      return googleResponse;
  }
}

function plainResponse(error: GatewayError): GatewayResponse {
  const { status, message, headers } = error;
  const body = { code: nameOfCode(error.code), message, ...reasonAndDetailsOf(error) };
  return jsonResponse(status, { ...headers }, body);
}

/** The reason, if it says more than the code, and the details, if there are any. */
function reasonAndDetailsOf(error: GatewayError): { reason?: string; details?: JsonValue[] } {
  const { code, reason } = error;
  const details = error.details();
  return { ...(reason !== nameOfCode(code) && { reason }), ...(details.length > 0 && { details }) };
}

/** Formats an error as Google's APIs do (AIP-193, "HTTP/1.1+JSON representation"). */
function googleResponse(error: GatewayError): GatewayResponse {
  const { status, code, message, headers } = error;
  const details = error.details();
  const body = { code: status, message, status: protoNameOfCode(code) };
  return jsonResponse(status, { ...headers }, { error: details.length === 0 ? body : { ...body, details } });
}

/** Returns the object below the key `error` of such an error; an error in another format unchanged. */
export function unwrapGoogleError(json: string): string {
  const { error, ...others } = parseJsonText(json) as { error?: unknown };
  return isObject(error) && Object.keys(others).length === 0 ? JSON.stringify(error) : json;
}

/** Formats application/problem+json (RFC 9457). The title of "about:blank" is the phrase of the status (section 4.2.1). */
function problemResponse(error: GatewayError): GatewayResponse {
  const { status, code, message } = error;
  const title = statusPhrases[status] ?? "Error";
  const problem = { type: "about:blank", title, status, detail: message, code: nameOfCode(code) };
  const response = jsonResponse(status, { ...error.headers }, { ...problem, ...reasonAndDetailsOf(error) });
  response.headers["content-type"] = "application/problem+json";
  return response;
}

function customResponse(
  error: GatewayError,
  { status = error.status, headers = {}, body }: ErrorShape,
): GatewayResponse {
  if (!Number.isInteger(status) || status < 400 || status > 599) {
    throw new RangeError("the status of an error must be from 400 to 599");
  }
  const own = Object.entries(headers).filter(([, value]) => [value].flat().every((each) => isHeaderValue(each)));
  const all = { ...error.headers, ...Object.fromEntries(own) };
  if (body === undefined || typeof body === "string" || body instanceof Uint8Array) {
    return { status, headers: all, body };
  }
  const type = all["content-type"] ?? "application/json";
  return { ...jsonResponse(status, all, body), headers: { ...all, "content-type": type } };
}

/** The phrases of error statuses in Node's `http.STATUS_CODES`, and of 499, a status of nginx. */
const statusPhrases: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  402: "Payment Required",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  407: "Proxy Authentication Required",
  408: "Request Timeout",
  409: "Conflict",
  410: "Gone",
  411: "Length Required",
  412: "Precondition Failed",
  413: "Payload Too Large",
  414: "URI Too Long",
  415: "Unsupported Media Type",
  416: "Range Not Satisfiable",
  417: "Expectation Failed",
  418: "I'm a Teapot",
  421: "Misdirected Request",
  422: "Unprocessable Entity",
  423: "Locked",
  424: "Failed Dependency",
  425: "Too Early",
  426: "Upgrade Required",
  428: "Precondition Required",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  451: "Unavailable For Legal Reasons",
  499: "Client Closed Request",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
  506: "Variant Also Negotiates",
  507: "Insufficient Storage",
  508: "Loop Detected",
  509: "Bandwidth Limit Exceeded",
  510: "Not Extended",
  511: "Network Authentication Required",
};
