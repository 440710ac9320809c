import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { type IncomingMessage } from "node:http";
import https from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type tls from "node:tls";
import type { ConnectRouter } from "@connectrpc/connect";
import { expect } from "vitest";
import { AuthService } from "../../../gen/flowgate/v1/auth_pb.ts";
import { openServer } from "../../../src/server/open-server.ts";
import type { ServerOptions } from "../../../src/server/server-options.ts";
import { type CertificateOptions, openCertificates } from "../../../src/server/http/certificates.ts";
import type { TlsFailure, TlsOptions } from "../../../src/server/http/tls.ts";
import { silentObserver } from "../../../src/telemetry/observer.ts";
import { createLog } from "../../../src/telemetry/log.ts";
import { createAuthority, type Issued, issueServer } from "../../certificates.ts";
import { eventually } from "../../e2e/service.ts";

export const authority = createAuthority();
export const workloads = createAuthority("Workloads");
export const client = { ca: authority.cert };

type Opening = {
  readonly server?: Issued;
  readonly clientCa?: string;
  readonly clientCertificate?: TlsOptions["clientCertificate"];
  readonly minVersion?: CertificateOptions["minVersion"];
  readonly options?: Partial<ServerOptions>;
  readonly nowMs?: () => number;
};

/** A server with its certificates in temporary files, which it polls frequently. */
export async function open({
  server: issued = issueServer(authority),
  clientCa,
  clientCertificate = "none",
  minVersion = "TLSv1.2",
  options,
  nowMs = Date.now,
}: Opening = {}) {
  const lines: { msg: string; reason?: string }[] = [];
  const log = createLog({
    level: "debug",
    destination: { write: (line: string) => void lines.push(JSON.parse(line) as (typeof lines)[number]) },
  });
  const directory = await mkdtemp(join(tmpdir(), "flowgate-tls-"));
  const files = { certFile: join(directory, "tls.crt"), keyFile: join(directory, "tls.key") };
  const clientCaFile = clientCa === undefined ? undefined : join(directory, "ca.crt");
  await writeFile(files.certFile, issued.cert);
  await writeFile(files.keyFile, issued.key);
  if (clientCa !== undefined && clientCaFile !== undefined) {
    await writeFile(clientCaFile, clientCa);
  }
  const certificates = await openCertificates({ ...files, clientCaFile, minVersion }, log, {
    pollIntervalMs: 10,
    nowMs,
  });
  const failures: TlsFailure[] = [];
  const server = await openServer({
    observer: { ...silentObserver, tlsHandshakeFailed: (reason) => void failures.push(reason as TlsFailure) },
    host: "127.0.0.1",
    port: 0,
    log,
    routes: (router: ConnectRouter) => void router.service(AuthService, { getLogin: () => ({ type: "credentials" }) }),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1024 },
    tls: { certificates, clientCertificate },
    ...options,
  });
  return {
    ...server,
    ...files,
    failures,
    certificates,
    directory,
    clientCaFile: clientCaFile ?? "",
    /** Waits until the log matches, and returns it. */
    logged: (pattern: RegExp) =>
      eventually(async () => {
        const log = lines.map(({ msg, reason = "" }) => `${msg} ${reason}`).join("\n");
        expect(log).toMatch(pattern);
        return log;
      }),
    async [Symbol.asyncDispose]() {
      certificates[Symbol.dispose]();
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

type Answer = {
  readonly status: number;
  readonly body: string;
  /** Whether the response closes the connection. */
  readonly closes: boolean;
  /** The serial number of the server's certificate. */
  readonly serial: string;
  /** Whether the connection resumed an earlier TLS session. */
  readonly resumed: boolean;
};

/** One request over HTTP/1.1, on a new connection. */
export async function get(port: number, options: https.RequestOptions = client): Promise<Answer> {
  const request = https.get({ host: "127.0.0.1", port, path: "/auth/login", agent: false, ...options });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const socket = request.socket as tls.TLSSocket;
  return {
    status: response.statusCode ?? 0,
    closes: response.headers.connection === "close",
    serial: socket.getPeerCertificate().serialNumber,
    resumed: socket.isSessionReused(),
    body: await text(response),
  };
}

export const login = '{"type":"credentials"}';

/** The error of a connection that is rejected after the handshake: in TLS 1.3, the client has completed it by then. */
export async function failure(call: Promise<unknown>): Promise<NodeJS.ErrnoException> {
  return (await call.then(
    () => new Error("the connection was accepted"),
    (error: unknown) => error,
  )) as NodeJS.ErrnoException;
}
