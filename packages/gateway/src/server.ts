/**
 * Building blocks for servers with listeners and endpoints of their own beside the gateway: bodies, errors in the format of a request's
 * protocol, CORS, and the JSON of messages.
 */
export type { GatewayResponse } from "./http/response.ts";
export { codeOfStatus } from "./errors/codes.ts";
export { isDeferred } from "./call/deferred.ts";
export { RequestError } from "./http/request-error.ts";
export { scanStructure } from "./json/structural-scan.ts";
export { createJsonCodec } from "./json/codec.ts";
export { readBody, type BodyReservation, streamBody } from "./adapters/node/body.ts";
export { sendHead } from "./adapters/node/http2.ts";
export { setContentLength } from "./adapters/content-length.ts";
export { sendStream } from "./adapters/node/send-stream.ts";
export { smallBodyBytes, type GatewayRequest } from "./http/request.ts";
export { decodePath } from "./routing/percent.ts";
export { addVary } from "./http/vary.ts";
export { createCorsPolicy, createOriginCheck, joinHeaderNames } from "./http/cors.ts";
export { isEnvelopedType, rejectCall } from "./protocols/rpc-rejection.ts";
