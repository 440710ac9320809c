import type { IncomingMessage, ServerResponse } from "node:http";

/** A request over either version: Node's compatibility layer gives HTTP/2 the same shape. */
export type RequestHandler = (request: IncomingMessage, response: ServerResponse) => void;
