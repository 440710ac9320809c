import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import type { Logger } from "pino";
import { type Certificates, hasExpired } from "./certificates.ts";
import { type DetectedConnection, type ProtocolDetector, sniff } from "./sniff.ts";

export type TlsOptions = {
  readonly certificates: Certificates;
  /** Whether clients show a certificate. One that is shown must be good, also where none is required. */
  readonly clientCertificate: "none" | "request" | "require";
};

/**
 * Why a handshake failed. `not_tls`: what came was no TLS; `parameters`: no version or cipher in common;
 * `client_certificate`: none, or one that is not good; `refused`: the client said so, most often since it does not
 * trust our certificate; `closed`: the client went away.
 */
export const tlsFailures = ["not_tls", "parameters", "client_certificate", "refused", "closed", "other"] as const;

export type TlsFailure = (typeof tlsFailures)[number];

/**
 * Secures each connection, and decides its protocol by ALPN (RFC 7301) or, for a client that offers none, by the
 * first bytes: Envoy's health checks send HTTP/2 without ALPN. A client that does not speak TLS is disconnected.
 */
export function createTls(
  { certificates, clientCertificate }: TlsOptions,
  log: Logger,
  onFailure: (reason: TlsFailure) => void = () => {},
): ProtocolDetector {
  /** What waits for a handshake, by the peer. */
  const secured = new Map<string, (socket: TLSSocket) => void>();
  const server = createServer({
    ...certificates.current(),
    ALPNProtocols: ["h2", "http/1.1"],
    requestCert: clientCertificate !== "none",
    rejectUnauthorized: clientCertificate === "require",
  });
  certificates.onChange((next) => server.setSecureContext(next));

  server.on("secureConnection", (socket) => {
    const fault = handshakeFailureOf(socket);
    if (fault === undefined) {
      secured.get(peerOf(socket))?.(socket);
    } else {
      onFailure("client_certificate");
      log.debug({ client: socket.remoteAddress, reason: fault }, "a client certificate was refused");
      socket.destroy();
    }
  });
  server.on("tlsClientError", ({ code = "" }: NodeJS.ErrnoException, socket) => {
    // Of a certificate that Node refuses the error itself tells only that the connection has ended.
    const fault = (socket.authorizationError as string | Error | null | undefined) ?? undefined;
    onFailure(fault === undefined ? failureOf(code) : "client_certificate");
    log.debug({ client: socket.remoteAddress, reason: fault ?? code }, "a TLS handshake failed");
  });

  return (plain, decided) => {
    // Or Node would keep a connection that its client ends before anyone is told of it.
    plain.allowHalfOpen = false;
    const peer = peerOf(plain);
    plain.once("close", () => secured.delete(peer));
    secured.set(peer, (socket) => {
      // A connection may break at any time; whoever uses it learns that from its end.
      socket.on("error", () => {});
      sniff(socket, (connection) => {
        if (isNegotiated(socket, connection)) {
          if (connection.protocol === "http2") {
            // Node's HTTP/2 server refuses a TLS socket that it was not negotiated on.
            socket.alpnProtocol = "h2";
          }
          // Whoever has the certificate renewed comes back with the next one.
          const goodUntilMs = socket.getPeerX509Certificate()?.validToDate.getTime();
          decided({ ...connection, ...(goodUntilMs !== undefined && { goodUntilMs }) });
        } else {
          // RFC 9113, section 3.3.
          socket.destroy();
        }
      });
    });
    server.emit("connection", plain);
  };
}

/** Whether it is the protocol that ALPN has chosen, where there was ALPN. */
function isNegotiated({ alpnProtocol }: TLSSocket, { protocol }: DetectedConnection): boolean {
  return alpnProtocol === false || (alpnProtocol === "h2") === (protocol === "http2");
}

/** By what OpenSSL names it, and Node. */
function failureOf(code: string): TlsFailure {
  if (/HTTP_REQUEST|HTTPS_PROXY_REQUEST|WRONG_VERSION_NUMBER|RECORD_LAYER|UNEXPECTED_MESSAGE/.test(code)) {
    return "not_tls";
  }
  if (/PEER_DID_NOT_RETURN_A_CERTIFICATE|CERTIFICATE_VERIFY_FAILED/.test(code)) {
    return "client_certificate";
  }
  if (/ALERT/.test(code)) {
    return "refused";
  }
  if (/UNSUPPORTED_PROTOCOL|VERSION_TOO_LOW|NO_SHARED|NO_SUITABLE|NO_APPLICATION_PROTOCOL/.test(code)) {
    return "parameters";
  }
  return code === "ECONNRESET" || code === "EPIPE" ? "closed" : "other";
}

/** What is wrong with the certificate that a client has shown. */
function handshakeFailureOf(socket: TLSSocket): string | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) {
    return undefined;
  }
  // Where none is required, Node lets one that is not good pass.
  if (!socket.authorized) {
    return String(socket.authorizationError);
  }
  // A session that is resumed was verified when it began.
  return hasExpired(certificate) ? "CERT_HAS_EXPIRED" : undefined;
}

/** Names a connection for as long as it is open; the same under TLS and beneath it. */
function peerOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
