/**
 * The building blocks of the transcoder, for servers that implement further protocols on them: requests and responses, calls
 * with gate, deadline and interceptors, and the JSON of messages.
 */
export type { GatewayResponse } from "./http/response.ts";
export { addHeaders } from "./http/response.ts";
export { createInvoke, createStreamInvoke, type Invoke, type InvokeStream, iterableOfOne } from "./call/invoke.ts";
export { createCallRunner, type PerformCall } from "./call/runner.ts";
export { codeOfStatus } from "./errors/codes.ts";
export type { CallContext } from "./call/context.ts";
export { deferMessage, isDeferred } from "./call/deferred.ts";
export { decompressInSteps, withReservation } from "./call/decompress-in-steps.ts";
export { readTimeout } from "./call/deadline.ts";
export { RequestError } from "./http/request-error.ts";
export { collectImplementations, type Implementation, type StreamImplementation } from "./call/implementations.ts";
export { scanStructure } from "./json/structural-scan.ts";
export { createJsonCodec } from "./json/codec.ts";
export { Accumulator } from "./adapters/node/accumulator.ts";
export { readBody, type BodyReservation, streamBody } from "./adapters/node/body.ts";
export { sendStream } from "./adapters/node/send-stream.ts";
export { openCancellable, type CancellableIterator } from "./call/cancellable-iterator.ts";
export { smallBodyBytes, type GatewayRequest } from "./http/request.ts";
export { addVary } from "./http/vary.ts";
export { createCorsPolicy, createOriginCheck, joinHeaderNames } from "./http/cors.ts";
export { fieldRule, maxBodyBytesOf, methodRule } from "./schema/rules.ts";
