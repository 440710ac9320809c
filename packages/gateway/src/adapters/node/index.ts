export { createNodeHandler, type NodeHandler, type NodeHandlerOptions } from "./handler.ts";
export type { NodeRequest, NodeResponse } from "./request.ts";
