import type { ConnectRouter } from "@connectrpc/connect";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { openServer } from "../../src/server/open-server.ts";
import type { ServerOptions } from "../../src/server/server-options.ts";
import { createLog } from "../../src/telemetry/log.ts";

/** A server of two operations without access rules. `lines` is its log. */
export async function openApi(options: Partial<ServerOptions> = {}) {
  const lines: Record<string, unknown>[] = [];
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log: createLog({ level: "debug", destination: { write: (line) => void lines.push(JSON.parse(line)) } }),
    routes: (router: ConnectRouter) =>
      void router.service(AuthService, {
        getLogin: () => ({ type: "none" }),
        issueToken: () => ({ accessToken: "a" }),
      }),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 },
    listener: { closeGraceMs: 100 },
    ...options,
  });
  return Object.assign(server, { lines });
}
