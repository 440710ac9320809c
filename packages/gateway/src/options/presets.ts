import type { GatewayOptions } from "./options.ts";

/** The options that have counterparts in other gateways; all others keep their defaults. */
type Preset = Pick<
  GatewayOptions,
  "unknownQuery" | "boundQuery" | "fieldMaskFromBody" | "googleTemplates" | "errors" | "streams" | "jsonOptions"
>;

/**
 * Options for projects that migrate from another gateway: `createGateway({ ...presets.envoy, routes })`.
 *
 * With every preset, a path variable is never overridden, numbers are parsed strictly, and a JSON body with an unknown field is
 * rejected, while grpc-gateway and vanguard-go ignore such a field. The method option `ignore_unknown` ignores it here, too.
 */
export const presets = {
  /**
   * grpc-gateway v2. Sets: unknown query parameters are ignored, and so are those for a field that the path or
   * the body binds; the FieldMask of a PATCH is filled from the body (`allow_patch_feature`); errors are google.rpc.Status; a
   * stream is application/json with lines of `{"result": …}`; fields with their default value are written, and unset messages
   * are written as null (`EmitUnpopulated`). For `UseProtoNames` set `jsonOptions.useProtoFieldName`, for `UseEnumNumbers`
   * `jsonOptions.enumAsInteger`.
   *
   * Still different: a known path with another method is 405, not 501; metadata is sent without the prefix `Grpc-Metadata-`, and trailers are not sent; a header can't override the method; bodies
   * have a limit (`readMaxBytes`).
   */
  grpcGateway: {
    unknownQuery: "ignore",
    boundQuery: "ignore",
    fieldMaskFromBody: true,
    errors: "status",
    streams: { preferred: "json", json: "results" },
    jsonOptions: { alwaysEmitImplicit: true, emitUnsetMessages: true },
  },

  /**
   * Envoy's grpc_json_transcoder with `convert_grpc_status`. Sets: unknown query parameters are rejected, as with
   * `request_validation_options.reject_unknown_query_parameters` (set `unknownQuery: "ignore"` if you use
   * `ignore_unknown_query_parameters`, and `ignoredQuery` if you use `ignored_query_parameters`); a parameter for a field that the
   * path or the body binds is ignored; errors are google.rpc.Status; a stream is a JSON array (set `streams.json: "lines"` if you
   * use `stream_newline_delimited`, and `streams.preferred: "sse"` if you use `stream_sse_style_delimited`). Of its other
   * `print_options`, `always_print_primitive_fields` is `jsonOptions.alwaysEmitImplicit`, `always_print_enums_as_ints`
   * `enumAsInteger`, and `preserve_proto_field_names` `useProtoFieldName`; `case_insensitive_enum_parsing` is
   * `jsonOptions.ignoreEnumCase`.
   *
   * Still different: a request that matches no rule is rejected (404, 405, 400), not forwarded; `+` in a query is a
   * space, as with `query_param_unescape_plus`; `details` is present even when empty; there are no counterparts of `auto_mapping` and
   * `capture_unknown_query_parameters`.
   */
  envoy: {
    unknownQuery: "reject",
    boundQuery: "ignore",
    errors: "status",
    streams: { preferred: "json", json: "array" },
  },

  /**
   * vanguard-go. Sets: unknown query parameters are rejected, as without `DiscardUnknownQueryParams`; a parameter for
   * a field that the path or the body binds is ignored; errors are google.rpc.Status; fields with their default value are
   * written, and unset messages are written as null.
   *
   * Still different: such a parameter does not override the path variable; streams need no HttpBody.
   */
  vanguard: {
    unknownQuery: "reject",
    boundQuery: "ignore",
    errors: "status",
    jsonOptions: { alwaysEmitImplicit: true, emitUnsetMessages: true },
  },

  /**
   * Google's APIs, for their generated clients with the REST transport, and for clients written for them. Sets: unknown query
   * parameters are ignored, among them the system parameters that these clients send, such as `$alt`; the FieldMask of a PATCH is
   * filled from the body; templates of Google's that the grammar in http.proto forbids are accepted; errors are those of AIP-193; a
   * stream is a JSON array.
   *
   * Still different: system parameters have no effect; the array of a stream that fails is not closed; a header can't override the
   * method; JSON is not indented.
   */
  google: {
    unknownQuery: "ignore",
    boundQuery: "reject",
    fieldMaskFromBody: true,
    googleTemplates: true,
    errors: "google",
    streams: { preferred: "json", json: "array" },
  },
} as const satisfies Record<string, Preset>;
