import { CliFailure } from "../failure.ts";
import type { Connection } from "./connection.ts";
import type { ConnectionFlags } from "./connection-options.ts";

const defaultServer = "http://127.0.0.1:8080";

/** Finds the server: in the flags, then in the environment. */
export async function resolveConnection(
  flags: ConnectionFlags,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Connection> {
  const server = flags.server ?? (environment["FLOWGATE_SERVER"] || defaultServer);
  const token = environment["FLOWGATE_TOKEN"] || undefined;
  return { server, ...parseServer(server), ...(token !== undefined && { token }), tls: {} };
}

function parseServer(server: string): Pick<Connection, "baseUrl" | "socketPath"> {
  if (server.startsWith("unix:")) {
    return { baseUrl: "http://localhost", socketPath: server.slice("unix:".length) };
  }
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol)) {
    throw new CliFailure(
      `--server: ${server} is not the URL of a server: specify one such as ${defaultServer}, or unix:/path/to/flowgate.sock.`,
    );
  }
  return { baseUrl: server };
}
