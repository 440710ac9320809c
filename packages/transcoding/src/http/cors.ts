import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { TranscodingResponse } from "./response.ts";
import type { TranscodingRequest } from "./request.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";
import { addVary } from "./vary.ts";

/** Which pages of other origins may call, and what they see (the Fetch standard's CORS protocol). */
export type CorsOptions = {
  /** The origins as a browser sends them, `https://app.example`; `"*"` is any. Or a function that decides. */
  readonly origins: readonly string[] | ((origin: string) => boolean);
  /** Lets them send cookies and the like; not for the origin `"*"`. Default: false. */
  readonly credentials?: boolean;
  /**
   * The response headers that a page may read, beside those that any may. Default: ETag, Retry-After,
   * WWW-Authenticate, and those that the methods' messages and options name.
   */
  readonly exposeHeaders?: readonly string[];
  /** For how long a browser need not ask again, in seconds. Default: 600. */
  readonly maxAgeSeconds?: number;
};

/** What a page may send without being told so by an operation. */
const requestHeaders = [
  "Accept",
  "Authorization",
  "Connect-Timeout-Ms",
  "Content-Encoding",
  "Content-Type",
  "Grpc-Timeout",
  "If-Match",
  "If-None-Match",
  "X-Server-Timeout",
];

const responseHeaders = ["ETag", "Retry-After", "WWW-Authenticate"];

/** Finds the method that a request would call. */
export type FindMethod = (httpMethod: string, target: string) => DescMethod | undefined;

/** Puts the CORS headers on an answer. */
export type Cors = (request: TranscodingRequest, answer: TranscodingResponse) => void;

/**
 * Compiles the option; throws at start-up where it is wrong. It works on any answer, errors too; the one to OPTIONS,
 * whose Allow tells the methods of the path, becomes that of a preflight.
 */
export function createCors(options: CorsOptions, methods: Iterable<DescMethod>, find: FindMethod): Cors {
  const { origins, credentials = false, maxAgeSeconds = 600 } = options;
  const any = typeof origins !== "function" && origins.includes("*");
  if (any && credentials) {
    throw new Error('cors: with credentials, the origin "*" would let every page act for its reader; name the origins');
  }
  if (typeof origins !== "function") {
    for (const origin of origins) {
      if (!/^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^/\s?#@]+)$/.test(origin)) {
        throw new Error(
          `cors: an origin has a scheme, a host, and no path, such as https://app.example, not "${origin}"`,
        );
      }
    }
  }
  const allowed = new Set(typeof origins === "function" ? [] : origins);
  const isAllowed = typeof origins === "function" ? origins : (origin: string) => any || allowed.has(origin);
  const all = [...methods];
  const allowHeaders = new Map(
    all.map((method) => [method, joinNames([...requestHeaders, ...ownRequestHeaders(method)])]),
  );
  const exposeHeaders = joinNames(options.exposeHeaders ?? [...responseHeaders, ...all.flatMap(ownResponseHeaders)]);

  return (request, { headers }) => {
    const { origin, "access-control-request-method": requestMethod } = request.headers;
    if (!any) {
      addVary(headers, "Origin");
    }
    if (typeof origin !== "string" || !isAllowed(origin)) {
      return;
    }
    headers["access-control-allow-origin"] = any ? "*" : origin;
    if (credentials) {
      headers["access-control-allow-credentials"] = "true";
    }
    if (request.httpMethod !== "OPTIONS" || requestMethod === undefined) {
      if (exposeHeaders !== "") {
        headers["access-control-expose-headers"] = exposeHeaders;
      }
      return;
    }
    const { allow } = headers;
    if (allow !== undefined) {
      const asked = find(requestMethod, request.target);
      headers["access-control-allow-methods"] = allow;
      headers["access-control-allow-headers"] = (asked && allowHeaders.get(asked)) ?? joinNames(requestHeaders);
      headers["access-control-max-age"] = String(maxAgeSeconds);
    }
  };
}

/** The headers that the methods' options and messages name; for those who have CORS done elsewhere, too. */
export function headersOf(methods: readonly DescMethod[]): {
  readonly request: string[];
  readonly response: string[];
} {
  return { request: methods.flatMap(ownRequestHeaders), response: methods.flatMap(ownResponseHeaders) };
}

function ownRequestHeaders(method: DescMethod): string[] {
  const { variants } = methodRule(method);
  return [...(variants === undefined ? [] : [variants.header]), ...boundHeaders(method.input)];
}

function ownResponseHeaders(method: DescMethod): string[] {
  return [...methodRule(method).headers.map(({ name }) => name), ...boundHeaders(method.output)];
}

function boundHeaders(desc: DescMessage): string[] {
  return desc.fields.map((field) => fieldRule(field).header).filter((name) => name !== "");
}

/** One list; each name once, whatever its case. */
function joinNames(names: readonly string[]): string {
  return [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].join(", ");
}
