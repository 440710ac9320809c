/**
 * What the transcoder stands on, for servers that let other protocols share it: requests and answers, the call with its
 * gate, deadline and interceptors, and the JSON of messages.
 */
export type { Answer } from "./answer.ts";
export { addHeaders } from "./answer.ts";
export { createInvoke, createStreamInvoke, type Invoke, type InvokeStream, iterableOfOne } from "./call.ts";
export { createCallRunner, type Call } from "./call-runner.ts";
export { codeOfStatus } from "./codes.ts";
export type { CallContext } from "./context.ts";
export { deferMessage, isDeferred } from "./deferred.ts";
export { readTimeout } from "./deadline.ts";
export { Fault } from "./fault.ts";
export { collectImplementations, type Implementation, type StreamImplementation } from "./implementations.ts";
export { createJsonCodec } from "./json-codec.ts";
export { createAccumulator } from "./node/accumulator.ts";
export { readBody, streamBody } from "./node/body.ts";
export { sendStream } from "./node/send-stream.ts";
export { openSource, type Source } from "./stream/source.ts";
export type { TranscodingRequest } from "./request.ts";
export { addVary } from "./vary.ts";
export { maxBodyBytesOf } from "./rules.ts";
