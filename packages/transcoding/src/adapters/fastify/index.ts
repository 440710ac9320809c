export { fastifyTranscodingPlugin, type FastifyTranscodingPluginOptions } from "./plugin.ts";
export { createFrameworkErrorHandler } from "./framework-errors.ts";
