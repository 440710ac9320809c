import type { JsonValue } from "@bufbuild/protobuf";
import type { Code } from "@connectrpc/connect";
import { STATUS_CODES } from "node:http";
import { isHeaderValue, jsonResponse, type TranscodingResponse } from "../http/response.ts";

/** An error on its way to a client, before it has a shape. */
export type TranscodingError = {
  /** Of the answer. */
  readonly status: number;
  /** The code of the RPC; of a request that led to none, the one that fits the status. */
  readonly code: Code;
  /** For programs: the reason of a google.rpc.ErrorInfo detail, else the name of the code, else the fault's own. */
  readonly reason: string;
  /** For people. */
  readonly message: string;
  /** Sent whatever the shape: what the error's metadata says, and `Allow` and the like. By lower-case name. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  /** The details of a ConnectError whose type is known, as JSON with `@type`. */
  details(): JsonValue[];
  /** What was thrown. Not for clients: it may hold what is nobody's business. */
  readonly cause: unknown;
};

/** What an error is answered by one's own function; what is absent stays as it would have been. */
export type ErrorShape = {
  readonly status?: number;
  /** By lower-case name; they are added to those of the error. */
  readonly headers?: Readonly<Record<string, string | string[]>>;
  /** Text and bytes go out as they are, and want a content-type; anything else as JSON. Absent: no body. */
  readonly body?: unknown;
};

/** The shape of errors' bodies. */
export type ErrorFormat = "plain" | "problem" | "status" | ((error: TranscodingError) => ErrorShape);

/** Compiles the option; what it returns never throws. */
export function createErrorFormatter(format: ErrorFormat): (error: TranscodingError) => TranscodingResponse {
  if (typeof format === "function") {
    return (error) => {
      try {
        return customAnswer(error, format(error));
      } catch {
        // Nobody is left to ask for a shape.
        return jsonResponse(500, {}, { code: "internal", message: "internal error" });
      }
    };
  }
  switch (format) {
    case "plain":
      return ({ status, reason, message, headers }) => jsonResponse(status, { ...headers }, { code: reason, message });
    case "problem":
      return problemAnswer;
    case "status":
      return (error) => {
        const { status, code, message, headers } = error;
        return jsonResponse(status, { ...headers }, { code, message, details: error.details() });
      };
    default:
      throw new Error(`errors must be "plain", "problem", "status" or a function, not ${String(format)}`);
  }
}

/** RFC 9457. A problem of the type about:blank has the status' own phrase for its title (section 4.2.1). */
function problemAnswer(error: TranscodingError): TranscodingResponse {
  const { status, reason, message } = error;
  const title = STATUS_CODES[status] ?? (status === 499 ? "Client Closed Request" : "Error");
  const details = error.details();
  const problem = { type: "about:blank", title, status, detail: message, code: reason };
  const answer = jsonResponse(status, { ...error.headers }, details.length === 0 ? problem : { ...problem, details });
  answer.headers["content-type"] = "application/problem+json";
  return answer;
}

function customAnswer(
  error: TranscodingError,
  { status = error.status, headers = {}, body }: ErrorShape,
): TranscodingResponse {
  if (!Number.isInteger(status) || status < 400 || status > 599) {
    throw new RangeError("an error has a status from 400 to 599");
  }
  const own = Object.entries(headers).filter(([, value]) => [value].flat().every((each) => isHeaderValue(each)));
  const all = { ...error.headers, ...Object.fromEntries(own) };
  if (body === undefined || typeof body === "string" || Buffer.isBuffer(body)) {
    return { status, headers: all, body };
  }
  const type = all["content-type"] ?? "application/json";
  return { ...jsonResponse(status, all, body), headers: { ...all, "content-type": type } };
}
