import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import type { Logger } from "pino";
import { type Certificates, hasExpired } from "./certificates.ts";
import { type DetectedConnection, type ProtocolDetector, sniff } from "./sniff.ts";

export type TlsOptions = {
  readonly certificates: Certificates;
  /** The demand for client certificates. A presented one must be valid, even if none is required. */
  readonly clientCertificate: "none" | "request" | "require";
};

/**
 * Why a handshake failed. `not_tls`: the client did not send TLS; `parameters`: no version or cipher in common;
 * `client_certificate`: missing or invalid; `refused`: the client sent an alert, usually because it does not trust the
 * server's certificate; `closed`: the client closed the connection.
 */
export const tlsFailures = ["not_tls", "parameters", "client_certificate", "refused", "closed", "other"] as const;

export type TlsFailure = (typeof tlsFailures)[number];

/**
 * Performs the TLS handshake of each connection, and detects its protocol by ALPN (RFC 7301) or, without ALPN, by the
 * first bytes: Envoy's health checks send HTTP/2 without ALPN. A client that does not speak TLS is disconnected.
 */
export function createTls(
  { certificates, clientCertificate }: TlsOptions,
  log: Logger,
  onFailure: (reason: TlsFailure) => void = () => {},
): ProtocolDetector {
  /** Connections in the handshake, by peer. */
  const handshakes = new Map<string, (socket: TLSSocket) => void>();
  const server = createServer({
    ...certificates.current(),
    ALPNProtocols: ["h2", "http/1.1"],
    requestCert: clientCertificate !== "none",
    rejectUnauthorized: clientCertificate === "require",
  });
  certificates.onChange((next) => server.setSecureContext(next));

  server.on("secureConnection", (socket) => {
    const problem = certificateProblemOf(socket);
    if (problem === undefined) {
      handshakes.get(peerOf(socket))?.(socket);
    } else {
      onFailure("client_certificate");
      log.debug({ client: socket.remoteAddress, reason: problem }, "a client certificate was rejected");
      socket.destroy();
    }
  });
  server.on("tlsClientError", ({ code = "" }: NodeJS.ErrnoException, socket) => {
    // For a rejected client certificate, the error itself only reports that the connection has ended.
    const problem = (socket.authorizationError as string | Error | null | undefined) ?? undefined;
    onFailure(problem === undefined ? failureOf(code) : "client_certificate");
    log.debug({ client: socket.remoteAddress, reason: problem ?? code }, "a TLS handshake failed");
  });

  return (accepted, onDetected) => {
    // Otherwise Node would keep a connection that its client ends during the handshake.
    accepted.allowHalfOpen = false;
    const peer = peerOf(accepted);
    accepted.once("close", () => handshakes.delete(peer));
    handshakes.set(peer, (socket) => {
      // Connection errors are handled through the close event.
      socket.on("error", () => {});
      sniff(socket, (connection) => {
        if (isNegotiated(socket, connection)) {
          if (connection.protocol === "http2") {
            // Node's HTTP/2 server rejects a TLS socket on which h2 was not negotiated.
            socket.alpnProtocol = "h2";
          }
          // After that, a client has to reconnect with its renewed certificate.
          const retireAtMs = socket.getPeerX509Certificate()?.validToDate.getTime();
          onDetected({ ...connection, ...(retireAtMs !== undefined && { retireAtMs }) });
        } else {
          // The client does not use the negotiated protocol (RFC 9113, section 3.3).
          socket.destroy();
        }
      });
    });
    server.emit("connection", accepted);
  };
}

/** True if the detected protocol is the one that ALPN selected; true without ALPN. */
function isNegotiated({ alpnProtocol }: TLSSocket, { protocol }: DetectedConnection): boolean {
  return alpnProtocol === false || (alpnProtocol === "h2") === (protocol === "http2");
}

/** Classifies an error code of OpenSSL or Node. */
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

/** Why the certificate of a client is rejected; undefined if it is valid or absent. */
function certificateProblemOf(socket: TLSSocket): string | undefined {
  const certificate = socket.getPeerX509Certificate();
  if (certificate === undefined) {
    return undefined;
  }
  // Unless a certificate is required, Node accepts an invalid one.
  if (!socket.authorized) {
    return String(socket.authorizationError);
  }
  // A resumed session was verified when it was established, so the certificate may have expired since.
  return hasExpired(certificate) ? "CERT_HAS_EXPIRED" : undefined;
}

/** Identifies an open connection; equal for a TLS socket and its TCP socket. */
function peerOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
