import type { ServerCompatRequest } from "../../gen/connectrpc/conformance/v1/server_compat_pb.ts";
import { openServer } from "../../src/server/open-server.ts";
import type { TlsOptions } from "../../src/server/http/tls.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { registerConformanceService } from "./service.ts";

/** Serves every protocol and both HTTP versions on one port, which is returned. */
export async function openFlowgate(request: ServerCompatRequest): Promise<number> {
  const tls = tlsOf(request);
  const { port } = await openServer({
    host: "127.0.0.1",
    port: 0,
    // Standard output is reserved for the response to the runner, which forwards standard error.
    log: createLog({ level: "error", destination: process.stderr }),
    routes: registerConformanceService,
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: request.messageReceiveLimit },
    ...(tls && { tls }),
  });
  return port;
}

function tlsOf({ serverCreds, clientTlsCert }: ServerCompatRequest): TlsOptions | undefined {
  if (serverCreds === undefined) {
    return undefined;
  }
  const hasClientCertificates = clientTlsCert.length > 0;
  return {
    certificates: {
      current: () => ({
        cert: Buffer.from(serverCreds.cert),
        key: Buffer.from(serverCreds.key),
        ...(hasClientCertificates && { ca: Buffer.from(clientTlsCert) }),
      }),
      notAfterMs: () => Number.POSITIVE_INFINITY,
      onChange() {},
      reload: async () => {},
      [Symbol.dispose]() {},
    },
    clientCertificate: hasClientCertificates ? "require" : "none",
  };
}
