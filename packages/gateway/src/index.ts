// For every user.
export { createGateway, createRestGateway, type Gateway, type GatewayMatch } from "./gateway.ts";
export type { CompressionOptions, Protocol, GatewayOptions, HealthOptions } from "./options/options.ts";
export type { Rule } from "./routing/routes.ts";
export { presets } from "./options/presets.ts";
export type { JsonOptions } from "./json/json-options.ts";
export type { ContentEncoding } from "./platform/compression.ts";
export type { ErrorFormat, ErrorShape, GatewayError } from "./errors/format.ts";
export type { GatewayRequest } from "./http/request.ts";
export type { GatewayResponse } from "./http/response.ts";
export { kHttpRoute, kHttpStatus } from "./call/context.ts";
export { PollableIterator } from "./call/pollable-iterator.ts";
export { RequestError } from "./http/request-error.ts";
export { expandTemplate, formatTemplate, parseTemplate, type Template } from "./routing/template.ts";
export { openapi, type OpenApiSource } from "./openapi/openapi.ts";
export type { OpenApiOptions } from "./openapi/options.ts";
export { readComments, type Comments } from "./openapi/comments.ts";
export type { Example, Examples, OperationExamples } from "./openapi/examples.ts";
export type { OpenApiDocument } from "./openapi/document.ts";

// For servers that decode or encode messages, or send headers, themselves.
export { corsHeadersOf, type CorsOptions } from "./http/cors.ts";
export {
  takeEncodedRequest,
  getEncodedRequest,
  type HttpFormat,
  type EncodedRequest,
  type RequestFormat,
} from "./call/deferred.ts";
export { createRequestDecoder, type RequestDecoder } from "./protocols/request-decoder.ts";
export { createEncodedMessage, type EncodedMessage, getEncodedMessage } from "./call/encoded-message.ts";
export { setEncodedField } from "./protocols/rest/response/encoded-field.ts";
export { createJsonCheck } from "./json/check.ts";
export { createJsonEncoder, type JsonEncoderOptions } from "./json/codec.ts";
export { createReachableRegistry } from "./schema/registry.ts";
