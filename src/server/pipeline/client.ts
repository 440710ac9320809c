import type { IncomingHttpHeaders } from "node:http";
import { BlockList, isIP } from "node:net";
import type { TLSSocket } from "node:tls";
import { invalidIdentity } from "../../auth/errors.ts";
import { isConfidentialUrl, isLoopback } from "@flowgate/base/addresses";
import { workloadOfCertificate, workloadOfForwarded } from "../../auth/workload.ts";
import type { Exchange } from "../http/exchange.ts";

type Subnet = { readonly address: string; readonly prefix: number; readonly family: "ipv4" | "ipv6" };

/** Parses an address, or a subnet such as 10.0.0.0/8. undefined: invalid, or all addresses (`/0`). */
export function parseSubnet(text: string): Subnet | undefined {
  const [, address = "", length] = /^([^/%]+)(?:\/([1-9]\d{0,2}))?$/.exec(text) ?? [];
  const version = isIP(address);
  const bits = version === 6 ? 128 : 32;
  const prefix = length === undefined ? bits : Number(length);
  return version === 0 || prefix > bits ? undefined : { address, prefix, family: version === 6 ? "ipv6" : "ipv4" };
}

/** Returns a test whether an address is in one of the subnets. IPv4-mapped IPv6 addresses match their IPv4 address. */
export function createTrust(subnets: readonly string[]): (address: string | undefined) => boolean {
  if (subnets.length === 0) {
    return () => false;
  }
  const trusted = new BlockList();
  for (const text of subnets) {
    const subnet = parseSubnet(text);
    if (subnet === undefined) {
      throw new TypeError("trustedProxies: must be addresses or subnets");
    }
    trusted.addSubnet(subnet.address, subnet.prefix, subnet.family);
  }
  return (address = "") => {
    const [plain = ""] = address.split("%", 1);
    const version = isIP(plain);
    return version !== 0 && trusted.check(plain, version === 6 ? "ipv6" : "ipv4");
  };
}

/** Reads properties of the client and of its request URL, with regard to trusted proxies. */
export type ClientReader = {
  /** The client's address: the last one in X-Forwarded-For that is not a trusted proxy, or the peer's. */
  addressOf(exchange: Exchange): string;
  /** The requested authority: X-Forwarded-Host of a trusted proxy, Host or :authority. */
  hostOf(exchange: Exchange): string;
  /** "http" or "https": X-Forwarded-Proto of a trusted proxy, or the connection's scheme. */
  schemeOf(exchange: Exchange): string;
  /**
   * True if a proxy, trusted or not, reports that another machine has sent the request, or that it is for another host:
   * a Host such as `localhost` then comes from the proxy.
   */
  isFromElsewhere(exchange: Exchange): boolean;
};

export function createClientReader(isTrusted: (address: string | undefined) => boolean): ClientReader {
  /** The last entry of a header to which each proxy appends; undefined if it does not come from a trusted proxy. */
  const forwarded = ({ headers, remoteAddress }: Exchange, name: string): string | undefined => {
    const value = headers[name];
    return typeof value === "string" && isTrusted(remoteAddress) ? value.split(",").at(-1)?.trim() : undefined;
  };
  return {
    addressOf({ headers, remoteAddress }) {
      const { "x-forwarded-for": hops } = headers;
      if (hops === undefined || !isTrusted(remoteAddress)) {
        return remoteAddress;
      }
      let nearest = remoteAddress;
      for (const hop of String(hops).split(",").toReversed()) {
        nearest = hop.trim();
        if (!isTrusted(nearest)) {
          break;
        }
      }
      return parseClientAddress(nearest, remoteAddress);
    },
    hostOf: (exchange) => forwarded(exchange, "x-forwarded-host") ?? hostHeaderOf(exchange.headers) ?? "",
    schemeOf: (exchange) =>
      forwarded(exchange, "x-forwarded-proto") ?? ("encrypted" in exchange.socket ? "https" : "http"),
    isFromElsewhere: ({ headers }) =>
      [
        ...entriesOf(headers["x-forwarded-for"]),
        ...entriesOf(headers["x-real-ip"]),
        ...parametersOf(headers.forwarded, "for"),
      ].some((hop) => !isLoopback(parseClientAddress(hop, ""))) ||
      [...entriesOf(headers["x-forwarded-host"]), ...parametersOf(headers.forwarded, "host")].some(
        (host) => !isConfidentialUrl(`http://${host}`),
      ),
  };
}

/** The headers by which proxies say for whom they send a request; anyone can set them. */
export const forwardingHeaders = [
  "forwarded",
  "x-forwarded-for",
  "x-forwarded-host",
  "x-forwarded-proto",
  "x-real-ip",
] as const;

/** The values of a parameter in all elements of a header Forwarded (RFC 7239). */
function parametersOf(header: string | undefined, name: "for" | "host"): string[] {
  const parameters = header?.matchAll(/(?:^|[;,\s])(for|host)="?([^";,\s]*)/gi) ?? [];
  return [...parameters].flatMap(([, key = "", value = ""]) => (key.toLowerCase() === name ? [value] : []));
}

function entriesOf(header: string | string[] | undefined): string[] {
  return header === undefined
    ? []
    : String(header)
        .split(",")
        .map((entry) => entry.trim());
}

function hostHeaderOf(headers: IncomingHttpHeaders & { ":authority"?: string }): string | undefined {
  return headers.host ?? headers[":authority"];
}

/** Parses an address as written by proxies, with or without a port. Returns `remoteAddress` if it is invalid. */
export function parseClientAddress(text: string, remoteAddress: string): string {
  if (isIP(text) !== 0) {
    return text;
  }
  const [, address = ""] = /^\[?([^\]]+?)\]?(?::\d{1,5})?$/.exec(text) ?? [];
  return isIP(address) === 0 ? remoteAddress : address;
}

/**
 * The identification of a workload: by its client certificate, or by the X-Forwarded-Client-Cert of a trusted proxy.
 */
export type IdentitySource = "certificate" | "forwarded";

/**
 * Returns the verified SPIFFE ID of the workload that sent a request; undefined if there is none. Throws
 * `invalid_identity` if the certificate or the header is invalid.
 */
export type ReadWorkload = (exchange: Exchange) => string | undefined;

type Trust = (address: string | undefined) => boolean;

export function createReadWorkload(source: IdentitySource, isTrusted: Trust): ReadWorkload {
  return source === "certificate" ? createReadCertificate() : (exchange) => readForwarded(exchange, isTrusted);
}

/** Caches the result per connection. */
function createReadCertificate(): ReadWorkload {
  const cache = new WeakMap<object, string | undefined>();
  return ({ socket }) => {
    if (!cache.has(socket)) {
      const secure = socket as TLSSocket;
      const certificate = secure.authorized ? secure.getPeerX509Certificate() : undefined;
      cache.set(socket, certificate && workloadOfCertificate(certificate));
    }
    return cache.get(socket);
  };
}

const header = "x-forwarded-client-cert";

function readForwarded({ headers, rawHeaders, remoteAddress }: Exchange, isTrusted: Trust): string | undefined {
  const { [header]: value } = headers;
  if (value === undefined || !isTrusted(remoteAddress)) {
    return undefined;
  }
  // Node joins repeated fields. One that the proxy has passed through could not be distinguished from its own.
  const lines = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === header);
  if (lines.length !== 1 || typeof value !== "string") {
    throw invalidIdentity("There must be one header X-Forwarded-Client-Cert, not several.");
  }
  return workloadOfForwarded(value);
}
