import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";
import type { AddressInfo, Server } from "node:net";
import { fastifyGatewayPlugin } from "@flowgate/gateway/fastify";
import { createNodeHandler } from "@flowgate/gateway/node";
import { fastify, type FastifyInstance } from "fastify";
import { HTTPVersion } from "../../gen/connectrpc/conformance/v1/config_pb.ts";
import type { ServerCompatRequest } from "../../gen/connectrpc/conformance/v1/server_compat_pb.ts";
import { registerConformanceService as routes } from "./service.ts";

/** Serves by the gateway library alone, on the servers of Node. HTTP/2 by its core API. Returns the port. */
export async function openNode(request: ServerCompatRequest): Promise<number> {
  const handler = createNodeHandler({ routes, readMaxBytes: request.messageReceiveLimit });
  const tls = tlsOf(request);
  let server: Server;
  if (request.httpVersion === HTTPVersion.HTTP_VERSION_1) {
    server = tls === undefined ? http.createServer(handler) : https.createServer(tls, handler);
  } else {
    server = (tls === undefined ? http2.createServer() : http2.createSecureServer(tls)).on("stream", handler.onStream);
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

/** The same in Fastify, which has HTTP/2 by Node's compatibility API. */
export async function openFastify(request: ServerCompatRequest): Promise<number> {
  const app = createApp(request);
  app.register(fastifyGatewayPlugin, { routes, readMaxBytes: request.messageReceiveLimit });
  await app.listen({ host: "127.0.0.1", port: 0 });
  return (app.server.address() as AddressInfo).port;
}

function createApp(request: ServerCompatRequest): FastifyInstance {
  const tls = tlsOf(request);
  if (request.httpVersion === HTTPVersion.HTTP_VERSION_1) {
    return tls === undefined ? fastify() : fastify({ https: tls });
  }
  return (tls === undefined
    ? fastify({ http2: true })
    : fastify({ http2: true, https: tls })) as unknown as FastifyInstance;
}

function tlsOf({ serverCreds, clientTlsCert }: ServerCompatRequest): https.ServerOptions | undefined {
  return (
    serverCreds && {
      cert: Buffer.from(serverCreds.cert),
      key: Buffer.from(serverCreds.key),
      ...(clientTlsCert.length > 0 && { ca: Buffer.from(clientTlsCert), requestCert: true, rejectUnauthorized: true }),
    }
  );
}
