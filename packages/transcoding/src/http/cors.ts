import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import type { TranscodingResponse } from "./response.ts";
import type { TranscodingRequest } from "./request.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";
import { addVary } from "./vary.ts";

/** The CORS policy (Fetch standard, section 3.3): the allowed origins, and what their pages may send and read. */
export type CorsOptions = {
  /**
   * The allowed origins, serialized as browsers send them (`https://app.example`), or `"*"` for any origin; or a
   * function that returns whether an origin is allowed.
   */
  readonly origins: readonly string[] | ((origin: string) => boolean);
  /** Whether to allow requests with credentials (cookies, HTTP authentication). Not allowed with the origin `"*"`. Default: false. */
  readonly credentials?: boolean;
  /**
   * The response headers that a page may read, in addition to the CORS-safelisted ones. Default: ETag, Retry-After,
   * WWW-Authenticate, and the response headers that the methods' options and messages define.
   */
  readonly exposeHeaders?: readonly string[];
  /** How long browsers may cache a preflight response, in seconds. Default: 600. */
  readonly maxAgeSeconds?: number;
};

/** The request headers that are allowed for every operation. */
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

/** Returns the RPC method that an HTTP method and request target are routed to. */
export type FindMethod = (httpMethod: string, target: string) => DescMethod | undefined;

/** Adds the CORS headers to a response. */
export type Cors = (request: TranscodingRequest, response: TranscodingResponse) => void;

/**
 * Validates and compiles the `cors` option; throws an Error if it is invalid. The returned function applies to every
 * response, including errors. A response to OPTIONS becomes a preflight response: its Allow header has the methods of the path.
 */
export function createCors(options: CorsOptions, methods: Iterable<DescMethod>, find: FindMethod): Cors {
  const { origins, credentials = false, maxAgeSeconds = 600 } = options;
  const any = typeof origins !== "function" && origins.includes("*");
  if (any && credentials) {
    throw new Error('cors: credentials can\'t be combined with the origin "*"; list the allowed origins');
  }
  if (typeof origins !== "function") {
    for (const origin of origins) {
      if (!/^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^/\s?#@]+)$/.test(origin)) {
        throw new Error(
          `cors: an origin must have a scheme, a host and no path, such as https://app.example, not "${origin}"`,
        );
      }
    }
  }
  const allowed = new Set(typeof origins === "function" ? [] : origins);
  const isAllowed = typeof origins === "function" ? origins : (origin: string) => any || allowed.has(origin);
  const all = [...methods];
  const allowHeaders = new Map(
    all.map((method) => [method, joinNames([...requestHeaders, ...requestHeadersOf(method)])]),
  );
  const exposeHeaders = joinNames(options.exposeHeaders ?? [...responseHeaders, ...all.flatMap(responseHeadersOf)]);

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
      const method = find(requestMethod, request.target);
      headers["access-control-allow-methods"] = allow;
      headers["access-control-allow-headers"] = (method && allowHeaders.get(method)) ?? joinNames(requestHeaders);
      headers["access-control-max-age"] = String(maxAgeSeconds);
    }
  };
}

/** The request and response headers that the methods' options and messages define; for a CORS policy outside of the transcoder. */
export function headersOf(methods: readonly DescMethod[]): {
  readonly request: string[];
  readonly response: string[];
} {
  return { request: methods.flatMap(requestHeadersOf), response: methods.flatMap(responseHeadersOf) };
}

function requestHeadersOf(method: DescMethod): string[] {
  const { variants } = methodRule(method);
  return [...(variants === undefined ? [] : [variants.header]), ...boundHeaders(method.input)];
}

function responseHeadersOf(method: DescMethod): string[] {
  return [...methodRule(method).headers.map(({ name }) => name), ...boundHeaders(method.output)];
}

function boundHeaders(desc: DescMessage): string[] {
  return desc.fields.map((field) => fieldRule(field).header).filter((name) => name !== "");
}

/** A comma-separated list without case-insensitive duplicates. */
function joinNames(names: readonly string[]): string {
  return [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].join(", ");
}
