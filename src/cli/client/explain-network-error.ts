import type { ConnectError } from "@connectrpc/connect";
import { printable } from "../printable.ts";
import type { Connection } from "./connection.ts";

/** Explains why there is no response of Flowgate. Undefined: there is one, or the error has no known cause. */
export function explainNetworkError(error: ConnectError, connection: Connection): string | undefined {
  const code = codeOf(error);
  if (code !== undefined) {
    return explainCode(code, error, connection);
  }
  return isForeign(error)
    ? `${connection.server} answers, but is not Flowgate: ${printable(error.rawMessage)}. Check the URL and the port; a proxy must pass the path /flowgate.v1.*.`
    : undefined;
}

/** The code of the innermost error of Node that has one. */
function codeOf(error: Error): string | undefined {
  let code: string | undefined;
  for (let each: unknown = error; each instanceof Error; each = each.cause) {
    if ("code" in each && typeof each.code === "string") {
      code = each.code;
    }
  }
  return code;
}

/** An HTTP response without an error in the format of Connect. */
function isForeign({ rawMessage }: ConnectError): boolean {
  return /^HTTP \d{3}$|^unsupported content type|content-type|cannot decode|^Unexpected token|JSON/i.test(rawMessage);
}

function explainCode(code: string, error: ConnectError, { server, socketPath, tls }: Connection): string {
  switch (code) {
    case "ECONNREFUSED":
      return socketPath === undefined
        ? `No server listens on ${server}. Start one with flowgate serve, or name another with --server, FLOWGATE_SERVER or flowgate context use.`
        : `No server listens on ${server}. Start one with flowgate serve.`;
    case "ENOENT":
      return `There is no socket ${socketPath ?? server}. It is in the data directory of a running service, as flowgate.sock.`;
    case "EACCES":
    case "EPERM":
      return `This user may not open ${socketPath ?? server}. Only the user that the service runs as can: run this command as that user.`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `The host of ${server} is not known${code === "EAI_AGAIN" ? ", or the name server does not answer" : ""}. Check its name, and the network.`;
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "ETIMEDOUT":
      return `${server} cannot be reached. Check the network, and whether a VPN or a proxy is needed.`;
    case "ECONNRESET":
    case "EPIPE":
    case "ERR_STREAM_PREMATURE_CLOSE":
      return `The connection to ${server} was lost.${tls.cert === undefined ? "" : certificateHint}`;
    case "EPROTO":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_PACKET_LENGTH_TOO_LONG":
      return `${server} does not answer with TLS. Check the port, or use ${server.replace(/^https:/, "http:")} if it has none.`;
    default:
      if (code.startsWith("HPE_")) {
        return notHttp(server);
      }
      return explainCertificate(code, server) ?? `${server}: ${printable(error.rawMessage)} (${code}).`;
  }
}

/** With TLS 1.3, the server checks the certificate after the client has begun to send. Node's servers send no alert then. */
const certificateHint =
  " Check that it accepts the certificate of the client: some servers close the connection if not.";

function notHttp(server: string): string {
  return server.startsWith("http:")
    ? `${server} does not answer with HTTP. Check the port, or use ${server.replace(/^http:/, "https:")} if it has TLS.`
    : `${server} does not answer with HTTP. Check the port.`;
}

/** What is wrong with the certificate of the server, or with that of the client. */
function explainCertificate(code: string, server: string): string | undefined {
  switch (code) {
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "UNABLE_TO_GET_ISSUER_CERT":
    case "UNABLE_TO_GET_ISSUER_CERT_LOCALLY":
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
    case "CERT_SIGNATURE_FAILURE":
      return `The certificate of ${server} is signed by itself, or by an authority that is not trusted here. Name the authority's certificate with --ca-file.`;
    case "CERT_HAS_EXPIRED":
      return `The certificate of ${server} has expired. Renew it at the server, or check the clock of this machine.`;
    case "CERT_NOT_YET_VALID":
      return `The certificate of ${server} is not valid yet. Check the clocks of the server and of this machine.`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `The certificate of ${server} is for another name. Use a name that it has in the URL, or state the expected one with --tls-server-name.`;
    case "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED":
    case "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE":
      return `${server} requires a certificate of the client. Name one with --cert-file and --key-file.`;
    default:
      return /^ERR_SSL_.*ALERT.*(CERTIFICATE|UNKNOWN_CA)/.test(code)
        ? `${server} rejects the certificate of the client (${code}). Name another with --cert-file and --key-file.`
        : undefined;
  }
}
