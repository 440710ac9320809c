export { fastifyTranscodingPlugin, type FastifyTranscodingPluginOptions } from "./plugin.ts";
export { answerFrameworkErrors } from "./framework-errors.ts";
