import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, readdir, stat, writeFile } from "node:fs/promises";
import http from "node:http";
import http2 from "node:http2";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { createAuthority, issueServer } from "../../certificates.ts";
import { createFolder } from "../../store/builders.ts";
import { openApi } from "../open-api.ts";

async function get(socketPath: string, path: string): Promise<[status: number | undefined, body: string]> {
  const request = http.get({ socketPath, path, headers: { host: "localhost" }, agent: false });
  const [response] = (await once(request, "response")) as [http.IncomingMessage];
  return [response.statusCode, await text(response)];
}

const openAt = (path: string, more: Parameters<typeof openApi>[0] = {}) =>
  openApi({ socket: { path, isRequired: true }, ...more });

test("serves the API over HTTP/1.1, HTTP/2 and gRPC, to this user only", async () => {
  await using folder = await createFolder();
  await chmod(folder.path, 0o755);
  const path = join(folder.path, "flowgate.sock");
  await using server = await openAt(path);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readdir(folder.path)).toEqual(["flowgate.sock"]);
  expect(await get(path, "/auth/login")).toEqual([200, '{"type":"none"}']);
  const session = http2.connect("http://localhost", { createConnection: () => connect(path) });
  expect(await text(session.request({ ":path": "/auth/login" }))).toBe('{"type":"none"}');
  session.destroy();
  const transport = createGrpcTransport({
    baseUrl: "http://localhost",
    nodeOptions: { createConnection: () => connect(path) },
  });
  expect(await createClient(AuthService, transport).getLogin({})).toMatchObject({ type: "none" });
  expect(server.lines).toContainEqual(expect.objectContaining({ client: "unix:", path: "/auth/login" }));
});

test("answers what curl sends", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "s");
  await using _ = await openAt(path, { browserSafety: { hosts: ["127.0.0.1"], checksTokens: false } });
  const curl = spawn("curl", ["-s", "--unix-socket", path, "http://localhost/auth/login"]);
  expect(await text(curl.stdout)).toBe('{"type":"none"}');
});

test("is plaintext when the port is not", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "s");
  const issued = issueServer(createAuthority());
  const certificates = { current: () => issued, onChange: () => {}, notAfterMs: () => 0, reload: async () => {} };
  await using server = await openAt(path, { tls: { certificates: certificates as never, clientCertificate: "none" } });
  expect(server.url).toMatch(/^https:/);
  expect(await get(path, "/healthz")).toEqual([200, '{"status":"ok"}']);
});

test("is removed at the end", async () => {
  await using folder = await createFolder();
  await (await openAt(join(folder.path, "s")))[Symbol.asyncDispose]();
  expect(await readdir(folder.path)).toEqual([]);
});

test("replaces the socket of a process that was killed", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "s");
  const listen = `require("net").createServer().listen(${JSON.stringify(path)}, () => console.log())`;
  const killed = spawn(process.execPath, ["-e", listen]);
  await once(killed.stdout, "data");
  killed.kill("SIGKILL");
  await once(killed, "exit");
  expect((await stat(path)).isSocket()).toBe(true);
  await using _ = await openAt(path);
  expect(await get(path, "/healthz")).toEqual([200, '{"status":"ok"}']);
});

test.each([true, false])("does not replace what is no socket, or is served (configured: %s)", async (isRequired) => {
  await using folder = await createFolder();
  const path = join(folder.path, "s");
  await writeFile(path, "precious");
  const start = () => openApi({ socket: { path, isRequired } });
  await expect(start()).rejects.toThrow(
    `socket: ${path} exists and is not a socket: remove it, or set socket to another path`,
  );
  const taken = join(folder.path, "t");
  const other = createServer().listen(taken);
  await once(other, "listening");
  await expect(openApi({ socket: { path: taken, isRequired } })).rejects.toThrow(
    `socket: another process listens on ${taken}: stop it, or set socket to another path`,
  );
  other.close();
});

test("a path that is too long is an error if it is configured, and otherwise a warning", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "x".repeat(108));
  const message = `socket: ${path} is longer than the 107 bytes that the path of a socket can have: set it to a shorter path, or to false`;
  await expect(openAt(path)).rejects.toThrow(message);
  await using server = await openApi({ socket: { path, isRequired: false } });
  expect(server.socketPath).toBeUndefined();
  expect(server.lines).toContainEqual(
    expect.objectContaining({ level: "warn", msg: `the API is not served on a Unix socket: ${message}` }),
  );
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});

test("a missing directory is named in the error", async () => {
  await expect(openAt("/nonexistent/s")).rejects.toThrow(/^socket: can't listen on \/nonexistent\/s \(ENOENT/);
});
