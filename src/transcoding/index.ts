export { fastifyTranscodingPlugin, type FastifyTranscodingPluginOptions } from "./plugin.ts";
export { createTranscoder, type Transcoder, type TranscoderOptions } from "./transcoder.ts";
export type { TranscodingRequest } from "./request.ts";
export type { Answer } from "./answer.ts";
export { Fault } from "./fault.ts";
export { createJsonCheck } from "./check.ts";
