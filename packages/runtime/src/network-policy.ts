import { BlockList, isIP } from "node:net";

/** The addresses that flows may connect to, as in `runtime.network`. */
export type NetworkAccess = {
  /** Undefined: everything that is not denied. */
  readonly allow?: readonly string[] | undefined;
  readonly deny: readonly string[];
};

export type NetworkPolicy = {
  /**
   * Returns why flows may not connect to an address, or undefined if they may. `isOwnPort`: the port is one of the service, and
   * the address one of this machine.
   */
  findDenial(address: string, port: number, isOwnPort: boolean): string | undefined;
};

/** An address in the text that a connection is made to. */
type Address = {
  readonly text: string;
  /** As the operating system numbers it. */
  readonly family: number;
  /** Also if it is mapped into IPv6. */
  readonly isIpv4: boolean;
};

/** Throws if a rule is invalid. What it returns uses nothing that flows can replace. */
export function createNetworkPolicy({ allow, deny }: NetworkAccess): NetworkPolicy {
  const { ipv4, ipv6 } = readFamilies();
  const allowed = (allow ?? ["*"]).map(parseRule);
  const denied = deny.map(parseRule);
  const isIpv4 = createCheck(subnetOf("0.0.0.0", 0));
  const isIpv6 = createCheck(subnetOf("::", 0));
  const isMapped = createCheck(mapped);
  const isUnspecified = createCheck(unspecified);
  const loopback: Address = { text: "127.0.0.1", family: ipv4, isIpv4: true };
  const loopback6: Address = { text: "::1", family: ipv6, isIpv4: false };

  function find(address: Address, port: number, isOwnPort: boolean): string | undefined {
    for (let index = 0; index < denied.length; index += 1) {
      if (matchesRule(denied[index] as CheckedRule, address, port)) {
        return "denied by the option runtime.network.deny";
      }
    }
    let isAllowed = false;
    let isPortAllowed = false;
    for (let index = 0; index < allowed.length; index += 1) {
      const rule = allowed[index] as CheckedRule;
      if (matchesRule(rule, address, port)) {
        isAllowed = true;
        isPortAllowed ||= rule.port !== undefined;
      }
    }
    if (isOwnPort && !isPortAllowed) {
      return "a port of the service, its store, its collector or a token issuer, and no entry of the option runtime.network.allow names it";
    }
    return isAllowed ? undefined : "not listed in the option runtime.network.allow";
  }

  function parseAddress(text: string): Address | undefined {
    // The native functions would read the text only to there.
    if (hasNul(text)) {
      return undefined;
    }
    if (isIpv4(text, ipv4)) {
      return { text, family: ipv4, isIpv4: true };
    }
    return isIpv6(text, ipv6) ? { text, family: ipv6, isIpv4: isMapped(text, ipv6) } : undefined;
  }

  return {
    findDenial(text, port, isOwnPort) {
      const address = parseAddress(text);
      if (address === undefined) {
        return "not an IP address";
      }
      if (!isUnspecified(text, address.family)) {
        return find(address, port, isOwnPort);
      }
      // Depending on the system and the socket, such a connection reaches either.
      return find(loopback, port, isOwnPort) ?? find(loopback6, port, isOwnPort);
    },
  };
}

/** A rule whose subnet is checked in a way that flows can't change. */
type CheckedRule = {
  readonly port: number | undefined;
  readonly subnet: { readonly check: Check; readonly isIpv4: boolean } | undefined;
};

function parseRule(text: string): CheckedRule {
  const rule = parseNetworkRule(text);
  if (rule === undefined) {
    throw new TypeError("runtime.network: must be addresses or subnets");
  }
  const { port, subnet } = rule;
  return { port, subnet: subnet && { check: createCheck(subnet.list), isIpv4: subnet.isIpv4 } };
}

function matchesRule({ port, subnet }: CheckedRule, address: Address, toPort: number): boolean {
  if (port !== undefined && port !== toPort) {
    return false;
  }
  return subnet === undefined || (subnet.isIpv4 === address.isIpv4 && subnet.check(address.text, address.family));
}

function hasNul(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === "\0") {
      return true;
    }
  }
  return false;
}

/** True if the address is in a list. False if it is invalid. Ignores the zone of an address such as `fe80::1%eth0`. */
type Check = (address: string, family: number) => boolean;

/** An internal object of Node. */
type Handle = { checkString: Check };

/** Calls the native function of a list itself: flows can replace everything that the methods of the list use. */
function createCheck(list: BlockList): Check {
  const { apply } = Reflect;
  const handle = handleOf(list);
  const { checkString } = handle;
  return (address, family) => apply(checkString, handle, [address, family]);
}

/** The numbers of the families, which differ between systems: lists pass them to their handles. */
function readFamilies(): { readonly ipv4: number; readonly ipv6: number } {
  const list = new BlockList();
  const handle = handleOf(list);
  const families: number[] = [];
  handle.checkString = (_address, family) => families.push(family) === 0;
  list.check("0.0.0.0", "ipv4");
  list.check("::", "ipv6");
  const [ipv4, ipv6] = families;
  if (ipv4 === undefined || ipv6 === undefined) {
    throw new Error(notSupported);
  }
  return { ipv4, ipv6 };
}

function handleOf(list: BlockList): Handle {
  const symbol = Object.getOwnPropertySymbols(list).find(({ description }) => description === "kHandle");
  const handle = symbol && (list as BlockList & Record<symbol, Partial<Handle> | undefined>)[symbol];
  if (handle?.checkString === undefined) {
    throw new Error(notSupported);
  }
  return handle as Handle;
}

const notSupported =
  "this version of Node.js lacks an internal function that is needed to restrict the network access of flows: use Node.js 26";

/** An entry of `runtime.network`. */
export type NetworkRule = {
  /** Undefined: all addresses. `isIpv4`: all of its addresses are of IPv4, mapped into IPv6 or not. */
  readonly subnet: { readonly list: BlockList; readonly isIpv4: boolean } | undefined;
  /** Undefined: all ports. */
  readonly port: number | undefined;
};

/**
 * Parses an entry of `runtime.network`; undefined if it is invalid.
 *
 *     entry  = host [":" port]
 *     host   = "*" | IPv4 ["/" prefix] | IPv6 ["/" prefix] | "[" IPv6 ["/" prefix] "]"
 *
 * An IPv6 address with a port is in brackets.
 */
export function parseNetworkRule(text: string): NetworkRule | undefined {
  const [, bracketed, plain, portText] =
    /^(?:\[([\da-f:.]+(?:\/\d+)?)\]|(\*|[\d.]+(?:\/\d+)?))(?::(\d+))?$/i.exec(text) ?? [];
  const port = portText === undefined ? undefined : parseNumber(portText, 1, 65_535);
  if (portText !== undefined && port === undefined) {
    return undefined;
  }
  if (plain === "*") {
    return { subnet: undefined, port };
  }
  const subnet = parseSubnet(bracketed ?? plain ?? text);
  if (subnet === undefined || (bracketed !== undefined && !bracketed.includes(":"))) {
    return undefined;
  }
  return { subnet, port };
}

function parseSubnet(text: string): NetworkRule["subnet"] {
  const [host = "", length, ...rest] = text.split("/");
  const bits = isIP(host) === 4 ? 32 : 128;
  const prefix = length === undefined ? bits : parseNumber(length, 0, bits);
  if (isIP(host) === 0 || host.includes("%") || prefix === undefined || rest.length > 0) {
    return undefined;
  }
  // A shorter prefix than that of all mapped addresses is a subnet of IPv6.
  return { list: subnetOf(host, prefix), isIpv4: bits === 32 || (prefix >= 96 && mapped.check(host, "ipv6")) };
}

function parseNumber(text: string, min: number, max: number): number | undefined {
  const value = /^(?:0|[1-9]\d*)$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}

function subnetOf(address: string, prefix: number): BlockList {
  const list = new BlockList();
  list.addSubnet(address, prefix, isIP(address) === 6 ? "ipv6" : "ipv4");
  return list;
}

/** IPv4 addresses that are mapped into IPv6 (RFC 4291, section 2.5.5.2). */
const mapped = subnetOf("::ffff:0.0.0.0", 96);

/** Connections to these reach this machine. */
const unspecified = subnetOf("0.0.0.0", 32);
unspecified.addAddress("::", "ipv6");
