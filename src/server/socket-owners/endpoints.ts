import { type Socket, isIPv4 } from "node:net";
import { endianness } from "node:os";
import { ipv6Groups } from "../../base/addresses.ts";

/**
 * The addresses of a connection from the view of its other end, as in `/proc/net/tcp` and `/proc/net/tcp6`: local and remote
 * address in hexadecimal, with ports. An IPv4 connection can be in either file. Empty for a closed socket.
 */
export function endpointsOf({ localAddress, localPort, remoteAddress, remotePort }: Socket): readonly string[] {
  if (localAddress === undefined || remoteAddress === undefined) {
    return [];
  }
  const ports = [formatPort(remotePort), formatPort(localPort)];
  const [remote, local] = [plainOf(remoteAddress), plainOf(localAddress)];
  const join = (format: (address: string) => string): string =>
    `${format(remote)}:${ports[0]} ${format(local)}:${ports[1]}`;
  return isIPv4(remote) ? [join(formatIPv4), join((address) => `${mapped}${formatIPv4(address)}`)] : [join(formatIPv6)];
}

/** Without the prefix of an IPv4 address mapped into IPv6, and without a zone. */
export function plainOf(address: string): string {
  return address.replace(/%.*$/, "").replace(/^::ffff:(?=[\d.]+$)/i, "");
}

function formatPort(port = 0): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}

function formatIPv4(address: string): string {
  return formatWord(Buffer.from(address.split(".").map(Number)));
}

function formatIPv6(address: string): string {
  const bytes = Buffer.from(ipv6Groups(address).flatMap((group) => [group >> 8, group & 255]));
  return [0, 4, 8, 12].map((at) => formatWord(bytes.subarray(at, at + 4))).join("");
}

/** The kernel prints words of 32 bits in the byte order of the machine. */
function formatWord(bytes: Buffer): string {
  const word = endianness() === "LE" ? bytes.readUInt32LE() : bytes.readUInt32BE();
  return word.toString(16).toUpperCase().padStart(8, "0");
}

const mapped = `0000000000000000${formatWord(Buffer.from([0, 0, 255, 255]))}`;
