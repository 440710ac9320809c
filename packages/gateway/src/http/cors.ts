import type { DescMessage, DescMethod } from "@bufbuild/protobuf";
import { addVary, type GatewayResponse } from "./response.ts";
import type { GatewayRequest } from "./request.ts";
import { fieldRule, methodRule } from "../schema/rules.ts";

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
   * Request headers that a page may send, in addition to the headers of the methods' options and messages, and the
   * headers that this package reads, such as Authorization and Connect-Timeout-Ms. Default: none.
   */
  readonly allowHeaders?: readonly string[];
  /**
   * The response headers that a page may read, in addition to the CORS-safelisted ones. Default: ETag, Location,
   * Retry-After, WWW-Authenticate, the headers of Connect and gRPC-Web, and the response headers that the methods'
   * options and messages define.
   */
  readonly exposeHeaders?: readonly string[];
  /** The time for which browsers may cache a preflight response, in seconds. Default: 600. */
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
  "If-Unmodified-Since",
  "X-Server-Timeout",
];

const responseHeaders = ["ETag", "Location", "Retry-After", "WWW-Authenticate"];

export type CorsPolicy = {
  /**
   * Sets the CORS headers of a response. `set` must append to Vary. Returns whether the request is a preflight from an
   * allowed origin.
   */
  readonly setHeaders: (request: CorsRequest, set: (name: string, value: string) => void) => boolean;
  /** The additional headers of a preflight response. Both arguments are comma-separated lists. */
  readonly preflightHeaders: (allowMethods: string, allowHeaders: string) => Record<string, string>;
};

type CorsRequest = Pick<GatewayRequest, "httpMethod" | "headers">;

/** Validates and compiles the options; throws an Error if they are invalid. `exposedHeaders` is the default of `exposeHeaders`. */
export function createCorsPolicy(options: CorsOptions, exposedHeaders: readonly string[]): CorsPolicy {
  const { origins, credentials = false, maxAgeSeconds = 600 } = options;
  const isAllowed = createOriginCheck(origins);
  const any = typeof origins !== "function" && origins.includes("*");
  if (any && credentials) {
    throw new Error('cors: credentials can\'t be combined with the origin "*"; list the allowed origins');
  }
  const exposeHeaders = joinHeaderNames(options.exposeHeaders ?? exposedHeaders);
  return {
    setHeaders({ httpMethod, headers }, set) {
      const { origin, "access-control-request-method": requestMethod } = headers;
      if (!any) {
        set("vary", "Origin");
      }
      if (typeof origin !== "string" || !isAllowed(origin)) {
        return false;
      }
      set("access-control-allow-origin", any ? "*" : origin);
      if (credentials) {
        set("access-control-allow-credentials", "true");
      }
      if (httpMethod === "OPTIONS" && requestMethod !== undefined) {
        return true;
      }
      if (exposeHeaders !== "") {
        set("access-control-expose-headers", exposeHeaders);
      }
      return false;
    },
    preflightHeaders: (allowMethods, allowHeaders) => ({
      "access-control-allow-methods": allowMethods,
      "access-control-allow-headers": allowHeaders,
      "access-control-max-age": String(maxAgeSeconds),
    }),
  };
}

/** Validates and compiles `origins`; throws an Error if it is invalid. */
export function createOriginCheck(origins: CorsOptions["origins"]): (origin: string) => boolean {
  if (typeof origins === "function") {
    return origins;
  }
  for (const origin of origins) {
    if (!/^(?:\*|null|[a-z][a-z0-9+.-]*:\/\/[^/\s?#@]+)$/.test(origin)) {
      throw new Error(
        `cors: an origin must have a scheme, a host and no path, such as https://app.example, not "${origin}"`,
      );
    }
  }
  const allowed = new Set(origins);
  return allowed.has("*") ? () => true : (origin) => allowed.has(origin);
}

type FindMethod = (httpMethod: string, target: string) => DescMethod | undefined;

export type CorsHeaders = { readonly allowedHeaders: readonly string[]; readonly exposedHeaders: readonly string[] };

const noHeaders: CorsHeaders = { allowedHeaders: [], exposedHeaders: [] };

export type Cors = (request: GatewayRequest, response: GatewayResponse) => void;

/**
 * Validates and compiles the `cors` option; throws an Error if it is invalid. The returned function applies to every
 * response, including errors. A response to OPTIONS becomes a preflight response: its Allow header has the methods of the path.
 * `more` are headers of the protocol, to be allowed and exposed for every operation.
 */
export function createCors(
  options: CorsOptions,
  methods: Iterable<DescMethod>,
  find: FindMethod,
  more: CorsHeaders = noHeaders,
): Cors {
  const all = [...methods];
  const policy = createCorsPolicy(options, [
    ...responseHeaders,
    ...more.exposedHeaders,
    ...all.flatMap(responseHeadersOf),
  ]);
  const always = [...requestHeaders, ...more.allowedHeaders, ...(options.allowHeaders ?? [])];
  const allowHeaders = new Map(
    all.map((method) => [method, joinHeaderNames([...always, ...requestHeadersOf(method)])]),
  );
  const defaultHeaders = joinHeaderNames(always);
  return (request, { headers }) => {
    const isPreflight = policy.setHeaders(request, (name, value) => {
      if (name === "vary") {
        addVary(headers, value);
      } else {
        headers[name] = value;
      }
    });
    const { allow } = headers;
    if (isPreflight && typeof allow === "string") {
      const method = find(request.headers["access-control-request-method"] ?? "", request.target);
      const names = (method && allowHeaders.get(method)) ?? defaultHeaders;
      Object.assign(headers, policy.preflightHeaders(allow, names));
    }
  };
}

/** The request and response headers that the methods' options and messages define; for a CORS policy outside of the gateway. */
export function corsHeadersOf(methods: readonly DescMethod[]): {
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

/** A comma-separated list without duplicates, ignoring case. */
export function joinHeaderNames(names: readonly string[]): string {
  return [...new Map(names.map((name) => [name.toLowerCase(), name])).values()].join(", ");
}
