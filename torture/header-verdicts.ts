import { once } from "node:events";
import { connect, type IncomingHttpHeaders } from "node:http2";
import type { Service } from "../test/e2e/service.ts";
import { openRaw } from "../test/server/http/raw-connection.ts";
import { compareVerdicts } from "./deployment-verdicts.ts";

/** Lines of the Authorization header, for a valid token. */
const forms: Readonly<Record<string, (token: string) => readonly string[]>> = {
  "a valid token": (token) => [`Bearer ${token}`],
  "a scheme in other letters": (token) => [`bEARER ${token}`],
  "two spaces": (token) => [`Bearer  ${token}`],
  "a tab": (token) => [`Bearer\t${token}`],
  "a trailing comma": (token) => [`Bearer ${token},`],
  "two tokens": (token) => [`Bearer ${token} ${token}`],
  "no scheme": (token) => [token],
  "no token": () => ["Bearer"],
  "another scheme": (token) => [`Basic ${token}`],
  "a truncated token": (token) => [`Bearer ${token.slice(0, -1)}`],
  "a token with padding": (token) => [`Bearer ${token}=`],
  nothing: () => [],
};

const grpcSettings = "/flowgate.v1.SettingsService/GetSettings";

type Ask = (service: Service, lines: readonly string[]) => Promise<string>;

const protocols: Readonly<Record<string, Ask>> = {
  REST: ({ port }, lines) => overHttp1(port, "GET /settings", lines, []),
  "Connect with JSON": ({ port }, lines) =>
    overHttp1(port, `POST ${grpcSettings}`, lines, ["Content-Type: application/json", "Content-Length: 2"], "{}"),
  "gRPC-Web": ({ port }, lines) =>
    overHttp1(
      port,
      `POST ${grpcSettings}`,
      lines,
      ["Content-Type: application/grpc-web+proto", "Content-Length: 5"],
      "\0\0\0\0\0",
    ),
  gRPC: overGrpc,
};

/** Sends each form of the header over each protocol. */
export async function compareHeaders(service: Service, token: string) {
  const violations: string[] = [];
  let calls = 0;
  for (const [form, make] of Object.entries(forms)) {
    const verdicts: Record<string, string> = {};
    for (const [name, ask] of Object.entries(protocols)) {
      verdicts[name] = await ask(service, make(token));
      calls++;
    }
    violations.push(...compareVerdicts(`Authorization with ${form}`, verdicts));
  }
  // Clients of HTTP/2 on Node can't send two.
  for (const name of ["REST", "Connect with JSON", "gRPC-Web"] as const) {
    const verdict = await protocols[name]?.(service, [`Bearer ${token}`, `Bearer ${token}`]);
    calls++;
    violations.push(...(verdict === "ok" ? [`two Authorization headers are accepted over ${name}`] : []));
  }
  return { calls, violations };
}

async function overHttp1(
  port: number,
  request: string,
  lines: readonly string[],
  headers: readonly string[],
  body = "",
): Promise<string> {
  using raw = await openRaw(port);
  const fields = ["Host: localhost", "Connection: close", ...headers, ...lines.map((line) => `Authorization: ${line}`)];
  raw.write(`${request} HTTP/1.1\r\n${fields.join("\r\n")}\r\n\r\n${body}`);
  const response = await raw.closed();
  const status = Number(/^HTTP\/1\.1 (\d+)/.exec(response)?.[1]);
  return verdictOf(status, /grpc-status: ?(\d+)/i.exec(response)?.[1]);
}

async function overGrpc({ url }: Service, lines: readonly string[]): Promise<string> {
  const session = connect(url);
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": grpcSettings,
      "content-type": "application/grpc",
      te: "trailers",
      ...(lines[0] !== undefined && { authorization: lines[0] }),
    });
    let trailers: IncomingHttpHeaders = {};
    stream.on("trailers", (received: IncomingHttpHeaders) => (trailers = received));
    stream.end(Buffer.alloc(5));
    const [headers] = (await once(stream, "response")) as [IncomingHttpHeaders];
    await once(stream.resume(), "close");
    const status = headers["grpc-status"] ?? trailers["grpc-status"];
    return verdictOf(Number(headers[":status"]), String(status));
  } finally {
    session.destroy();
  }
}

function verdictOf(status: number, grpcStatus: string | undefined): string {
  if (grpcStatus !== undefined) {
    return { "0": "ok", "16": "unauthenticated" }[grpcStatus] ?? `gRPC ${grpcStatus}`;
  }
  return { 200: "ok", 401: "unauthenticated" }[status] ?? `HTTP ${status}`;
}
