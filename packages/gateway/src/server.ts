/**
 * For servers with listeners and endpoints of their own beside the gateway: bodies of Node's requests and responses, and CORS and errors
 * in the format of a request's protocol for what the gateway does not answer.
 */
export { readBody, type BodyReservation, streamBody } from "./adapters/node/body.ts";
export { smallBodyBytes } from "./http/request.ts";
export { sendHead } from "./adapters/node/http2.ts";
export { setContentLength } from "./adapters/content-length.ts";
export { sendStream } from "./adapters/node/send-stream.ts";
export { addVary } from "./http/response.ts";
export { createCorsPolicy, createOriginCheck, joinHeaderNames } from "./http/cors.ts";
export { decodePath } from "./routing/percent.ts";
export { codeOfStatus } from "./errors/codes.ts";
export { isEnvelopedType, rejectCall } from "./protocols/rpc-rejection.ts";
