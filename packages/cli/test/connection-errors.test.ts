import { once } from "node:events";
import { chmod, mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo, Server } from "node:net";
import { createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createAuthority, daysFromNow, issueServer } from "../../../test/certificates.ts";
import { runCommand } from "../../../test/cli/run-command.ts";
import { atTerminal, needsTerminal } from "../../../test/cli/terminal.ts";

async function listen(server: Server): Promise<{ port: number; [Symbol.dispose](): void }> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, [Symbol.dispose]: () => void server.close() };
}

async function fails(args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const { code, stdout, stderr } = await runCommand(args, { env });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  return stderr;
}

const answer =
  (status: number, headers: Record<string, string>, body: string): RequestListener =>
  (_, response) =>
    response.writeHead(status, { connection: "close", ...headers }).end(body);

const json = { "content-type": "application/json" };

test.each<[string, RequestListener, string]>([
  ["a web page", answer(200, { "content-type": "text/html" }, "<h1>Hello</h1>"), "answers, but is not Flowgate"],
  ["nothing at this path", answer(404, { "content-type": "text/html" }, "<h1>404</h1>"), "not Flowgate"],
  ["a redirection", answer(302, { location: "http://a" }, ""), "not Flowgate"],
  [
    "too much load",
    answer(503, { ...json, "retry-after": "60" }, JSON.stringify({ code: "unavailable", message: "busy" })),
    "is not available: busy. Try again in 60 s.",
  ],
  [
    "control characters",
    answer(400, json, JSON.stringify({ code: "invalid_argument", message: "\x1b]0;owned\x07" })),
    "\\x1b]0;owned\\x07",
  ],
])("explains a server that answers with %s", async (_, listener, message) => {
  using server = await listen(createServer(listener));
  expect(await fails(["get", "flows", "--server", `http://127.0.0.1:${server.port}`])).toContain(message);
});

test("explains what no server answers", async () => {
  using silent = await listen(createServer(() => {}));
  using noHttp = await listen(createTcpServer((socket) => socket.end("220 mail.example\r\n")));
  using lost = await listen(createServer((request) => request.socket.destroy()));
  const { port: closed, [Symbol.dispose]: close } = await listen(createTcpServer());
  close();
  const at = (port: number) => `http://127.0.0.1:${port}`;
  expect(await fails(["status", "--server", at(closed)])).toBe(
    `flowgate: No server listens on ${at(closed)}. Start one with flowgate serve, or name another with --server, FLOWGATE_SERVER or flowgate server use.\n`,
  );
  expect(await fails(["status", "--server", "http://flows.invalid"])).toContain(
    "The host of http://flows.invalid is not known",
  );
  expect(await fails(["whoami", "--server", at(silent.port), "--timeout", "0.2"])).toContain(
    "did not answer within 0.2 s",
  );
  expect(await fails(["whoami", "--server", at(noHttp.port)])).toContain("does not answer with HTTP");
  expect(await fails(["whoami", "--server", at(lost.port)])).toContain("was lost.\n");
  expect(await fails(["runtime", "restart", "--server", at(lost.port)])).toContain(
    "It is not known whether the server has",
  );
});

test("explains certificates that are not valid", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const authority = createAuthority();
  const settings = answer(200, { "content-type": "application/proto" }, "");
  const caFile = join(folder.path, "ca.pem");
  await writeFile(caFile, authority.cert);
  const serve = (certificate: Parameters<typeof issueServer>[1]) =>
    listen(createTlsServer(issueServer(authority, certificate), settings));
  using valid = await serve({});
  using expired = await serve({ to: daysFromNow(-0.1) });
  using other = await serve({ dnsNames: ["other"], addresses: [] });
  const get = (port: number, ...flags: string[]) => ["whoami", "--server", `https://127.0.0.1:${port}`, ...flags];
  expect(await fails(get(valid.port))).toContain(
    "an authority that is not trusted here. Name the authority's certificate with --ca-file.",
  );
  expect((await runCommand(get(valid.port, "--ca-file", caFile))).code).toBe(0);
  expect(await fails(get(expired.port, "--ca-file", caFile))).toContain("has expired");
  expect(await fails(get(other.port, "--ca-file", caFile))).toContain("is for another name");
  expect((await runCommand(get(other.port, "--ca-file", caFile, "--tls-server-name", "other"))).code).toBe(0);
  expect(await runCommand(get(expired.port, "--insecure-skip-tls-verify"))).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("warning: the certificate of https://127.0.0.1:"),
  });
  expect(await fails(get(1, "--ca-file", "/nowhere.pem"))).toContain("--ca-file: /nowhere.pem cannot be read");
  expect(await fails(["whoami", "--server", "http://a", "--ca-file", caFile])).toContain("http://a has no TLS");
});

test("presents the certificate of the client, and explains a server that rejects it", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  const [authority, otherAuthority] = [createAuthority(), createAuthority("Other authority")];
  const client = authority.issue();
  const files = { ca: authority.cert, cert: client.cert, key: client.key, other: otherAuthority.issue().cert };
  const path = (name: keyof typeof files) => join(folder.path, `${name}.pem`);
  await Promise.all(Object.entries(files).map(([name, pem]) => writeFile(path(name as keyof typeof files), pem)));
  const strict = { ...issueServer(authority), ca: authority.cert, requestCert: true };
  using server = await listen(createTlsServer(strict, answer(200, { "content-type": "application/proto" }, "")));
  const call = ["whoami", "--server", `https://127.0.0.1:${server.port}`, "--ca-file", path("ca")];
  const [cert, key] = [
    ["--cert-file", path("cert")],
    ["--key-file", path("key")],
  ] as const;
  expect(await runCommand([...call, ...cert, ...key])).toMatchObject({ code: 0, stderr: "" });
  expect(await fails(call)).toContain(
    "requires a certificate of the client. Name one with --cert-file and --key-file.",
  );
  expect(await fails([...call, ...cert])).toContain("--cert-file needs --key-file too");
  expect(await fails([...call, "--cert-file", path("other"), ...key])).toContain("These certificates cannot be used");
  const foreign = otherAuthority.issue();
  await writeFile(path("cert"), foreign.cert);
  await writeFile(path("key"), foreign.key);
  expect(await fails([...call, ...cert, ...key])).toContain(
    "was lost. Check that it accepts the certificate of the client: some servers close the connection if not.",
  );
});

test("shows at a terminal that a call takes longer than a second", needsTerminal, async () => {
  let respond = (): void => {};
  using server = await listen(
    createServer((_, response) => {
      respond = () => {
        response.writeHead(200, { "content-type": "application/proto", connection: "close" }).end();
      };
    }),
  );
  const call = ["whoami", "--server", `http://127.0.0.1:${server.port}`];
  const waiting = `Waiting for http://127.0.0.1:${server.port}`;
  const { code, shown } = await atTerminal(call, [[waiting, () => respond()]]);
  expect(code).toBe(0);
  // The line is removed, and the cursor is shown again, before the result is printed.
  const [, result = ""] = shown.split("\x1b[?25h");
  expect(shown.indexOf(waiting)).toBeGreaterThan(0);
  expect(result).toContain("No user:");
  expect(result).not.toContain("Waiting");
});

test("does not send a token unencrypted to another machine", async () => {
  const env = { FLOWGATE_TOKEN: "secret" };
  expect(await fails(["status", "--server", "http://flows.invalid"], env)).toMatch(/^flowgate: The token was not sent/);
  expect(await fails(["status", "--server", "http://flows.invalid", "--insecure-allow-http"], env)).toContain(
    "not known",
  );
});

test.each([
  ["localhost:8080", "or http://localhost:8080, or unix:"],
  ["ftp://a", "this is not the URL of a server: ftp://a"],
  ["http://ada:hunter2@a", "a URL must not contain a user or password"],
])("rejects the URL %s", async (server, message) => {
  const stderr = await fails(["status", "--server", server]);
  expect(stderr).toContain(message);
  expect(stderr).not.toContain("hunter2");
});

test.each([
  ["servers:\n  a: {server: 1}\n", 0o600, "servers.a.server: must be a string"],
  ["contexts: {}\n", 0o600, "contexts: is called servers now: rename it"],
  ["current: a\n", 0o600, "current: unknown key"],
  ["servers: [\n", 0o600, "config.yaml:"],
  ["servers: {}\n", 0o644, "is open to other users of this machine"],
])("rejects the configuration %j with the mode %i", async (content, mode, message) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
  await mkdir(join(folder.path, "flowgate"));
  const path = join(folder.path, "flowgate/config.yaml");
  await writeFile(path, content);
  await chmod(path, mode);
  expect(await fails(["status"], { XDG_CONFIG_HOME: folder.path })).toContain(message);
});
