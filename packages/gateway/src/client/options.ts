import type { Registry } from "@bufbuild/protobuf";
import type { Interceptor } from "@connectrpc/connect";
import {
  aBoolean,
  aFunction,
  aNumber,
  anObject,
  arrayOf,
  checkOptions,
  required,
  type ChecksOf,
  type OptionCheck,
} from "../options/check-options.ts";
import type { Rule } from "../routing/routes.ts";

export type RestTransportOptions = {
  /** The URL before the paths of the rules, such as `https://api.example` or `https://api.example/prefix`. */
  baseUrl: string;
  /**
   * Makes the HTTP requests, for example with credentials, with an API key in the query, or with a response cache. Default:
   * `globalThis.fetch`.
   */
  fetch?: typeof globalThis.fetch;
  /** Connect interceptors; the last one is applied first. Default: none. */
  interceptors?: Interceptor[];
  /** The timeout of calls that have none of their own, in ms. Default: none. */
  defaultTimeoutMs?: number;
  /**
   * The header that tells the server the timeout of a call; the client applies the timeout in any case. "none" is for browsers
   * and servers whose CORS policy allows none of them. Default: "X-Server-Timeout", which Google, vanguard-go and this package
   * read; grpc-gateway reads "Grpc-Timeout".
   */
  timeoutHeader?: "X-Server-Timeout" | "Grpc-Timeout" | "Connect-Timeout-Ms" | "none";
  /**
   * - `ignoreUnknownFields`: whether keys of a response that the message does not declare are ignored. Default: true, since a
   *   newer server may send them.
   * - `registry`: the types that a google.protobuf.Any and error details can contain. Default: the types in the file of the
   *   service and its imports, and the well-known types. Those of google.rpc are always known in error details.
   */
  jsonOptions?: { readonly ignoreUnknownFields?: boolean; readonly registry?: Registry };
  /**
   * - `maps`: whether maps are sent as `name[key]=value`, as this package and grpc-gateway accept them. google.api.http does not
   *   allow maps in a query. Default: false, such a call is an error.
   * - `fieldMaskNames`: the names in a google.protobuf.FieldMask. Default: "json", as in the proto3 JSON mapping; grpc-gateway
   *   expects "proto" in a query.
   */
  query?: { readonly maps?: boolean; readonly fieldMaskNames?: "json" | "proto" };
  /** Rules that are not in the .proto, as in the option of the gateway. Default: none. */
  rules?: readonly Rule[];
};

export type CompleteTransportOptions = {
  readonly baseUrl: string;
  readonly fetch: typeof globalThis.fetch;
  readonly interceptors: Interceptor[];
  readonly defaultTimeoutMs: number | undefined;
  readonly timeoutHeader: NonNullable<RestTransportOptions["timeoutHeader"]>;
  readonly ignoreUnknown: boolean;
  /** Undefined for the types that the file of each service imports. */
  readonly registry: Registry | undefined;
  readonly query: Required<NonNullable<RestTransportOptions["query"]>>;
  readonly rules: readonly Rule[];
};

const anything: OptionCheck = { allowed: "any value", accepts: () => true };

const checks: ChecksOf<RestTransportOptions> = {
  baseUrl: required({ allowed: "a URL", accepts: (value) => typeof value === "string" }),
  fetch: aFunction,
  interceptors: arrayOf("functions", (item) => typeof item === "function"),
  defaultTimeoutMs: aNumber(0, Number.MAX_SAFE_INTEGER),
  timeoutHeader: anything,
  jsonOptions: anObject({ ignoreUnknownFields: aBoolean, registry: anything }),
  query: anObject({ maps: aBoolean, fieldMaskNames: anything }),
  rules: arrayOf("rules", (item) => typeof item === "object" && item !== null),
};

const timeoutHeaders = ["X-Server-Timeout", "Grpc-Timeout", "Connect-Timeout-Ms", "none"];

export function completeOptions(options: RestTransportOptions): CompleteTransportOptions {
  checkOptions(options, checks);
  const complete: CompleteTransportOptions = {
    baseUrl: options.baseUrl.replace(/\/+$/, ""),
    // Browsers require that fetch is called as a method of the global object.
    fetch: options.fetch ?? ((input, init) => globalThis.fetch(input, init)),
    interceptors: options.interceptors ?? [],
    defaultTimeoutMs: options.defaultTimeoutMs,
    timeoutHeader: options.timeoutHeader ?? "X-Server-Timeout",
    ignoreUnknown: options.jsonOptions?.ignoreUnknownFields ?? true,
    registry: options.jsonOptions?.registry,
    query: { maps: false, fieldMaskNames: "json", ...options.query },
    rules: options.rules ?? [],
  };
  if (!URL.canParse(complete.baseUrl) || /[?#]/.test(complete.baseUrl)) {
    throw new TypeError(`baseUrl must be an absolute URL without query and fragment, not "${options.baseUrl}"`);
  }
  if (!timeoutHeaders.includes(complete.timeoutHeader)) {
    throw new TypeError(`timeoutHeader must be one of ${timeoutHeaders.join(", ")}, not "${complete.timeoutHeader}"`);
  }
  if (!["json", "proto"].includes(complete.query.fieldMaskNames)) {
    throw new TypeError(`query.fieldMaskNames must be "json" or "proto", not "${complete.query.fieldMaskNames}"`);
  }
  return complete;
}
