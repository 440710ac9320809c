export { fastifyGatewayPlugin, type FastifyGatewayPluginOptions } from "./plugin.ts";
export { createFrameworkErrorHandler } from "./framework-errors.ts";
