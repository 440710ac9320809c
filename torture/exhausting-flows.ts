import { functionNode, type Node, tab } from "../test/e2e/flow-builders.ts";
import { escape } from "../test/runtime/flow-builders.ts";

function flow(code: string): Node[] {
  const initialize = `${escape} const net = host.getBuiltinModule("net"); ${code}`;
  return [tab("hostile"), functionNode("exhausting", { z: "hostile", initialize })];
}

/** Holds connections to the API, and opens those again that are closed. */
export function holdConnections(port: number, count: number, request = ""): Node[] {
  return flow(`const open = () => {
      const socket = net.connect(${port}, "127.0.0.1", () => socket.write(${JSON.stringify(request)}));
      socket.on("error", () => {}).on("data", () => {}).on("close", () => setTimeout(open, 20));
    };
    for (let at = 0; at < ${count}; at++) open();`);
}

/** The beginning of a call whose body never ends. */
export const slowCall =
  "POST /auth/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n" +
  "Content-Length: 60000\r\n\r\na";

/** Tries passwords of users that do not exist, each until it is answered, and not only rejected as one call too many. */
export function failLogins(port: number, count: number): Node[] {
  const body = (at: string) => `"client_id=service-admin&grant_type=password&username=nobody" + ${at} + "&password=x"`;
  return flow(`const login = (at) => host.getBuiltinModule("http").request(
      { port: ${port}, host: "127.0.0.1", method: "POST", path: "/auth/token",
        headers: { "content-type": "application/x-www-form-urlencoded" } },
      (response) => response.resume().statusCode === 503 && setTimeout(login, 50, at))
      .on("error", () => setTimeout(login, 50, at)).end(${body("at")});
    for (let at = 0; at < ${count}; at++) login(at);`);
}

/** A request that HTTP/1.1 keeps the connection open after. */
export const keptAlive = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
