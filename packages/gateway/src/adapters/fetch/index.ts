export { createFetchHandler, createRestFetchHandler, type FetchHandler, type FetchHandlerOptions } from "./handler.ts";
