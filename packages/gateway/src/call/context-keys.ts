import { createContextKey, type ContextKey } from "@connectrpc/connect";

/**
 * The path template of a REST request as in the .proto, such as `/v1/books/{id}`, for interceptors: the `http.route` of OpenTelemetry.
 * Undefined for other protocols.
 */
export const kHttpRoute: ContextKey<string | undefined> = createContextKey<string | undefined>(undefined, {
  description: "path template of a REST request",
});

/**
 * The HTTP status of a successful REST response, from 200 to 399, chosen by the implementation:
 * `context.values.set(kHttpStatus, 201)`. 204, 205 and 304 have no body. Other protocols ignore it. Default: that of the method.
 */
export const kHttpStatus: ContextKey<number | undefined> = createContextKey<number | undefined>(undefined, {
  description: "status of a REST response",
});
