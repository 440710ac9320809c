import type { IncomingHttpHeaders } from "node:http";
import type { ConnectRouter, ContextValues } from "@connectrpc/connect";
import type { ErrorShape, GatewayError } from "@flowgate/gateway";
import type { NodeHandler } from "@flowgate/gateway/node";

// Published types: apart from the implementation, whose types refer to packages that users do not have.

/** A request of Node, Express or Fastify. */
type MountedRequest = {
  readonly headers: IncomingHttpHeaders;
  /** The client's address, with regard to the proxies that the framework trusts. */
  readonly ip?: string | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | undefined;
};

/** The API for a server of the program. */
export type Mount = {
  /**
   * Registers the services with Connect's router, for any of its adapters. Each call is authenticated and authorized as on the port of the
   * gateway. Throws an Error if everyone could call it: without `adminAuth`, `identity` and `allowUnauthenticated`.
   */
  readonly routes: (router: ConnectRouter) => ConnectRouter;
  /** The option `contextValues` of the adapters. Without it, failed logins of all clients are counted together. */
  readonly contextValues: (request: MountedRequest) => ContextValues;
  /** The option `errors` of the gateway library's adapters, for the documented error bodies of the HTTP API. */
  readonly errors: (error: GatewayError) => ErrorShape;
  /**
   * Creates a request listener for all protocols, REST included. It calls `next` for other paths, and responds with 404 without it.
   * Throws as `routes`.
   */
  readonly createHandler: () => NodeHandler;
};
