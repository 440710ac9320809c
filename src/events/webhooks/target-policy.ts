import { BlockList, isIP, isIPv6 } from "node:net";
import { parseNetworkRule } from "@flowgate/runtime";

/** The permitted targets of webhooks, as in `webhooks.network`. */
export type TargetAccess = {
  /** Undefined: all public addresses. */
  readonly allow?: readonly string[] | undefined;
  readonly deny: readonly string[];
};

export interface TargetPolicy {
  /** Returns why an address of this host may not be connected to; undefined: it may. `host` is from the URL. */
  findDenial(host: string, address: string, port: number): string | undefined;
}

/** Throws if an entry is invalid. */
export function createTargetPolicy({ allow, deny }: TargetAccess): TargetPolicy {
  const allowed = allow?.map((text) => parseEntry(text));
  const denied = deny.map((text) => parseEntry(text));
  return {
    findDenial(host, address, port) {
      // A trailing dot is another spelling of the same name.
      const name = host.toLowerCase().replace(/\.$/, "");
      const matches = (entry: Entry): boolean => matchesEntry(entry, name, address, port);
      if (denied.some((entry) => matches(entry))) {
        return "denied by the option webhooks.network.deny";
      }
      if (allowed?.some((entry) => entry.kind !== "any" && matches(entry)) === true) {
        return undefined;
      }
      if (!isPublic(address)) {
        return "not a public address, and not listed in the option webhooks.network.allow";
      }
      return allowed === undefined || allowed.some((entry) => matches(entry))
        ? undefined
        : "not listed in the option webhooks.network.allow";
    },
  };
}

type Entry = { readonly port: number | undefined } & (
  | { readonly kind: "any" }
  | { readonly kind: "subnet"; readonly list: BlockList }
  | { readonly kind: "name"; readonly name: string }
);

/** True if a text is an entry of `webhooks.network`: one of `runtime.network`, or a host name with or without a port. */
export function isTargetEntry(text: string): boolean {
  return parseNetworkRule(text) !== undefined || namePattern.test(text);
}

/** The last label begins with a letter, so that no other spelling of an address is taken for a name. */
const namePattern = /^((?:[a-z\d_-]+\.)*[a-z][a-z\d_-]*)(?::([1-9]\d{0,4}))?$/i;

function parseEntry(text: string): Entry {
  const rule = parseNetworkRule(text);
  if (rule === undefined) {
    const [, name, port] = namePattern.exec(text) ?? [];
    if (name === undefined) {
      throw new TypeError("webhooks.network: must be addresses, subnets or host names");
    }
    return { kind: "name", name: name.toLowerCase(), port: port === undefined ? undefined : Number(port) };
  }
  const { port, subnet } = rule;
  return subnet === undefined ? { kind: "any", port } : { kind: "subnet", list: subnet.list, port };
}

function matchesEntry(entry: Entry, host: string, address: string, port: number): boolean {
  if (entry.port !== undefined && entry.port !== port) {
    return false;
  }
  switch (entry.kind) {
    case "any":
      return true;
    case "name":
      return entry.name === host;
    default:
      return entry.list.check(address, familyOf(address));
  }
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIPv6(address) ? "ipv6" : "ipv4";
}

/** The special-purpose addresses of IANA that are not globally reachable, and the ranges that contain them. */
const special = new BlockList();
for (const [subnet, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  // Includes the metadata services of clouds.
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const) {
  special.addSubnet(subnet, prefix, "ipv4");
}
special.addSubnet("2001::", 23, "ipv6");
special.addSubnet("2001:db8::", 32, "ipv6");
special.addSubnet("2002::", 16, "ipv6");
special.addSubnet("3fff::", 20, "ipv6");

/** IPv4 addresses that are mapped into IPv6 (RFC 4291, section 2.5.5.2). */
const mapped = new BlockList();
mapped.addSubnet("::ffff:0.0.0.0", 96, "ipv6");

const globalUnicast = new BlockList();
globalUnicast.addSubnet("2000::", 3, "ipv6");

export function isPublic(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !special.check(address, "ipv4");
    case 6:
      return (globalUnicast.check(address, "ipv6") || mapped.check(address, "ipv6")) && !special.check(address, "ipv6");
    default:
      return false;
  }
}
