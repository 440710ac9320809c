import type { TranscoderOptions } from "./options.ts";

/** Options of which another transcoder has no counterpart stay at their defaults. */
type Preset = Pick<TranscoderOptions, "unknownQuery" | "boundQuery" | "errors" | "streams">;

/**
 * Sets of options for projects that come from another transcoder: `createTranscoder({ ...presets.envoy, routes })`.
 *
 * None of them changes what a request means: a path variable is never overridden, numbers are strict, and a JSON
 * body with a field that its message does not have is refused, while all three of the others drop such a field
 * in silence. The method option `ignore_unknown` drops it here, too.
 */
export const presets = {
  /**
   * grpc-gateway v2. Sets: unknown query parameters are ignored, and so are those for a field that the path or
   * the body binds; errors are google.rpc.Status; a stream is application/json, in lines of `{"result": …}`.
   *
   * Still different: fields at their zero value are left out, as the proto3 JSON mapping says (its marshaler
   * writes them; here the field option `always` does); a known path with another method is 405, not 501; metadata
   * is sent without the prefix `Grpc-Metadata-`, and trailers are not; there is no override of the method by a
   * header; bodies have a limit (`maxBodyBytes`).
   */
  grpcGateway: {
    unknownQuery: "ignore",
    boundQuery: "ignore",
    errors: "status",
    streams: { preferred: "json", json: "results" },
  },

  /**
   * Envoy's grpc_json_transcoder with `convert_grpc_status`. Sets: unknown query parameters are refused, as with
   * `request_validation_options.reject_unknown_query_parameters` (set `unknownQuery: "ignore"` where you have
   * `ignore_unknown_query_parameters`); a parameter for a field that the path or the body binds is ignored; errors are
   * google.rpc.Status; a stream is a JSON array (set `streams.json: "lines"` where you have `stream_newline_delimited`,
   * and `streams.preferred: "sse"` where you have `stream_sse_style_delimited`).
   *
   * Still different: a request that fits no rule is answered here (404, 405, 400), not handed on; `+` in a query is a
   * space, as with `query_param_unescape_plus`; `details` is there even when empty; names of enum values have one
   * case, `case_insensitive_enum_parsing` or not; there are no counterparts of `auto_mapping`,
   * `capture_unknown_query_parameters` and the other `print_options`.
   */
  envoy: {
    unknownQuery: "reject",
    boundQuery: "ignore",
    errors: "status",
    streams: { preferred: "json", json: "array" },
  },

  /**
   * vanguard-go. Sets: unknown query parameters are refused, as without `DiscardUnknownQueryParams`; a parameter for
   * a field that the path or the body binds is ignored; errors are google.rpc.Status.
   *
   * Still different: such a parameter does not override the path variable; fields at their zero value are left out,
   * as the proto3 JSON mapping says (its codec writes them; here the field option `always` does); streams need no
   * HttpBody.
   */
  vanguard: { unknownQuery: "reject", boundQuery: "ignore", errors: "status" },
} as const satisfies Record<string, Preset>;
