import { resolve } from "node:path";
import { isLoopback } from "../../base/addresses.ts";
import { CliFailure } from "../failure.ts";
import type { Connection } from "./connection.ts";

const scheme = "unix:";

/** Parses the URL of a server. The result names each server in one way only. `origin` is the flag or variable that has it. */
export function parseServer(text: string, origin: string): Pick<Connection, "server" | "baseUrl" | "socketPath"> {
  if (text.startsWith(scheme) && text.length > scheme.length) {
    const socketPath = resolve(text.slice(scheme.length).replace(/^\/\/(?=\/)/, ""));
    return { server: `${scheme}${socketPath}`, baseUrl: "http://localhost", socketPath };
  }
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new CliFailure(
      `${origin}: this is not the URL of a server: ${text}. Specify one such as https://flowgate.example.com${suggest(text)}, or unix:/path/to/flowgate.sock.`,
    );
  }
  if (url.username !== "" || url.password !== "") {
    throw new CliFailure(`${origin}: a URL must not contain a user or password: remove them, and use flowgate login.`);
  }
  if (url.search !== "" || url.hash !== "") {
    throw new CliFailure(`${origin}: the URL of a server has no ? or #: remove them.`);
  }
  const server = `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
  return { server, baseUrl: server };
}

/** Whether others on the network could read what is sent to this server. */
export function isReadable(server: string): boolean {
  if (!server.startsWith("http:")) {
    return false;
  }
  return !isLoopback(new URL(server).hostname.replace(/^\[(.*)\]$/, "$1"));
}

/** A URL for a text such as `localhost:8080`. */
function suggest(text: string): string {
  const url = `http://${text}`;
  return /^[\w.-]+(:\d+)?$/.test(text) && URL.canParse(url) ? ` or ${url}` : "";
}
