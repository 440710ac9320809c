import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import https from "node:https";
import type { AddressInfo, Server } from "node:net";
import { compressionBrotli, compressionGzip, connectNodeAdapter } from "@connectrpc/connect-node";
import { HTTPVersion } from "../../gen/connectrpc/conformance/v1/config_pb.ts";
import type { ServerCompatRequest } from "../../gen/connectrpc/conformance/v1/server_compat_pb.ts";
import { registerConformanceService } from "./service.ts";

/** Serves the same with Connect's adapter for Node, without a message limit, for comparison. Returns the port. */
export async function openStock(request: ServerCompatRequest): Promise<number> {
  const server = createServer(request).listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function createServer({ httpVersion, serverCreds, clientTlsCert }: ServerCompatRequest): Server {
  const handler = connectNodeAdapter({
    routes: registerConformanceService,
    acceptCompression: [compressionGzip, compressionBrotli],
  });
  const isHttp1 = httpVersion === HTTPVersion.HTTP_VERSION_1;
  if (serverCreds === undefined) {
    return isHttp1 ? http.createServer(handler) : http2.createServer(handler);
  }
  const tls = {
    cert: Buffer.from(serverCreds.cert),
    key: Buffer.from(serverCreds.key),
    ...(clientTlsCert.length > 0 && { ca: Buffer.from(clientTlsCert), requestCert: true, rejectUnauthorized: true }),
  };
  return isHttp1 ? https.createServer(tls, handler) : http2.createSecureServer(tls, handler);
}
