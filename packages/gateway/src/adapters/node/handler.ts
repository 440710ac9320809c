import type { ContextValues } from "@connectrpc/connect";
import type { IncomingHttpHeaders as Http2Headers, ServerHttp2Stream } from "node:http2";
import type { GatewayResponse } from "../../http/response.ts";
import { createGateway, type Gateway } from "../../gateway.ts";
import { createAdapterGateway, type AdapterOptions } from "../adapter.ts";
import { Http2StreamRequest, respondOnStream } from "./http2.ts";
import { NodeGatewayRequest, type NodeRequest, type NodeResponse, type ResponseOfNode } from "./request.ts";
import { sendResponse } from "./send-response.ts";

/** The options of createNodeHandler. `contextValues` receives the request of Node. */
export type NodeHandlerOptions = AdapterOptions<[request: NodeRequest]>;

/** A request listener of `node:http` and `node:http2`, and a middleware of Express. */
export type NodeHandler = {
  /** `next` is called for a request that is passed on, see the option `unknownPath`. Without it, the request is rejected. */
  (request: NodeRequest, response: NodeResponse, next?: () => void): void;
  /**
   * The same for the event `stream` of an HTTP/2 server, instead of `request`: without the objects of Node's compatibility API.
   * There is no `next`; `contextValues` gets `headers`, `method`, `socket` and `stream` only.
   */
  readonly onStream: (stream: ServerHttp2Stream, headers: Http2Headers) => void;
  /** Routes a request without responding to it. `target` is the request target as it was sent. */
  readonly match: Gateway["match"];
};

/**
 * Creates a request listener that serves the RPCs of `routes` over Connect, gRPC-Web and gRPC, and RPCs with a
 * google.api.http rule over REST, over HTTP/1.1 and HTTP/2. Under a mount path of Express, paths are matched without
 * it.
 */
export function createNodeHandler(options: NodeHandlerOptions): NodeHandler {
  const { match } = createAdapterGateway(createGateway, options);
  const { contextValues } = options;
  const passes = options.unknownPath === "pass";

  const handle = (request: NodeRequest, nodeResponse: NodeResponse, next?: () => void): void => {
    const response = nodeResponse as ResponseOfNode;
    const matched = match(request.method ?? "", request.url ?? "", request.headers);
    if (passes && next !== undefined && !matched.isKnownPath) {
      next();
      return;
    }
    const send = (result: GatewayResponse): void => {
      void sendResponse(result, request, response, response.getHeaders(), matched.kind);
    };
    const result = matched.respond(new HandlerRequest(request, response, contextValues));
    if (result instanceof Promise) {
      void result.then(send);
    } else {
      send(result);
    }
  };
  const onStream: NodeHandler["onStream"] = (stream, headers) => {
    const request = new Http2StreamRequest(stream, headers, contextValues);
    const result = match(request.httpMethod, request.target, request.headers).respond(request);
    if (result instanceof Promise) {
      void result.then((response) => respondOnStream(response, request));
    } else {
      respondOnStream(result, request);
    }
  };
  return Object.assign(handle, { match, onStream });
}

class HandlerRequest extends NodeGatewayRequest {
  readonly #request: NodeRequest & { readonly originalUrl?: string };
  readonly #contextValues: NodeHandlerOptions["contextValues"];

  constructor(request: NodeRequest, response: ResponseOfNode, contextValues: NodeHandlerOptions["contextValues"]) {
    super(request, response, request.url ?? "");
    this.#request = request;
    this.#contextValues = contextValues;
  }

  url(): string {
    const { headers, socket, url, originalUrl = url ?? "" } = this.#request;
    if (!originalUrl.startsWith("/")) {
      return originalUrl;
    }
    const scheme = "encrypted" in socket && socket.encrypted ? "https" : "http";
    return `${scheme}://${String(headers[":authority"] ?? headers.host ?? "localhost")}${originalUrl}`;
  }

  contextValues(): ContextValues | undefined {
    return this.#contextValues?.(this.#request);
  }
}
