export { createFetchHandler, type FetchHandler, type FetchHandlerOptions } from "./handler.ts";
