/** What flows may connect to, as in `runtime.network`. */
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

/** Throws if a rule is invalid. Like `parseAddress`, `findDenial` uses nothing that flows can replace. */
export function createNetworkPolicy({ allow, deny }: NetworkAccess): NetworkPolicy {
  const allowed = (allow ?? ["*"]).map(parseRule);
  const denied = deny.map(parseRule);
  const loopback = parseAddress("127.0.0.1") as Address;
  const loopback6 = parseAddress("::1") as Address;

  function find(address: Address, port: number, isOwnPort: boolean): string | undefined {
    for (let index = 0; index < denied.length; index += 1) {
      if (matchesRule(denied[index] as NetworkRule, address, port)) {
        return "denied by the option runtime.network.deny";
      }
    }
    let isAllowed = false;
    let isPortAllowed = false;
    for (let index = 0; index < allowed.length; index += 1) {
      const rule = allowed[index] as NetworkRule;
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

  return {
    findDenial(text, port, isOwnPort) {
      const address = parseAddress(withoutZone(text));
      if (address === undefined) {
        return "not an IP address";
      }
      if (!isUnspecified(address)) {
        return find(address, port, isOwnPort);
      }
      // Depending on the system and the socket, such a connection reaches either.
      return find(loopback, port, isOwnPort) ?? find(loopback6, port, isOwnPort);
    },
  };
}

function parseRule(text: string): NetworkRule {
  const rule = parseNetworkRule(text);
  if (rule === undefined) {
    throw new TypeError("runtime.network: must be addresses or subnets");
  }
  return rule;
}

/** RFC 4007, section 11: `fe80::1%eth0`. */
function withoutZone(text: string): string {
  let address = "";
  for (let at = 0; at < text.length && text[at] !== "%"; at += 1) {
    address += text[at];
  }
  return address;
}

// Addresses are checked in the process of hostile flows, which can replace the properties of every built-in object. Therefore
// matching and `parseAddress` use no methods and globals.

/** An IPv4 address is represented as an IPv4-mapped IPv6 address. */
type Address = {
  readonly isIpv4: boolean;
  /** Eight numbers of 16 bits. */
  readonly groups: readonly number[];
};

/** An entry of `runtime.network`. */
export type NetworkRule = {
  /** Undefined: all addresses. */
  readonly subnet: (Address & { readonly prefix: number }) | undefined;
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
  const address = parseAddress(host);
  const bits = host.includes(":") ? 128 : 32;
  const prefix = length === undefined ? bits : parseNumber(length, 0, bits);
  if (address === undefined || prefix === undefined || rest.length > 0) {
    return undefined;
  }
  const mappedPrefix = prefix + 128 - bits;
  // A shorter prefix than that of all mapped addresses is a subnet of IPv6.
  return { isIpv4: address.isIpv4 && mappedPrefix >= 96, groups: address.groups, prefix: mappedPrefix };
}

function parseNumber(text: string, min: number, max: number): number | undefined {
  const value = /^(?:0|[1-9]\d*)$/.test(text) ? Number(text) : Number.NaN;
  return value >= min && value <= max ? value : undefined;
}

function matchesRule(rule: NetworkRule, address: Address, port: number): boolean {
  const { subnet } = rule;
  if (rule.port !== undefined && rule.port !== port) {
    return false;
  }
  if (subnet === undefined) {
    return true;
  }
  if (subnet.isIpv4 !== address.isIpv4) {
    return false;
  }
  for (let index = 0; index < 8; index += 1) {
    const bits = subnet.prefix - 16 * index;
    if (bits <= 0) {
      return true;
    }
    const mask = bits >= 16 ? 0xffff : 0xffff << (16 - bits);
    if ((((subnet.groups[index] as number) ^ (address.groups[index] as number)) & mask) !== 0) {
      return false;
    }
  }
  return true;
}

/** 0.0.0.0, `::` or `::ffff:0.0.0.0`. Connections to these reach this machine. */
function isUnspecified({ isIpv4, groups }: Address): boolean {
  for (let index = isIpv4 ? 6 : 0; index < 8; index += 1) {
    if (groups[index] !== 0) {
      return false;
    }
  }
  return true;
}

// Without a prototype, so that a flow can't add digits.
const digits: Readonly<Record<string, number>> = Object.assign(
  Object.create(null),
  Object.fromEntries(Array.from("0123456789abcdefABCDEF", (digit) => [digit, Number.parseInt(digit, 16)])),
);

/** Parses an IPv4 or IPv6 address without a zone; undefined if it is invalid. */
function parseAddress(text: string): Address | undefined {
  const groups = [0, 0, 0, 0, 0, 0, 0, 0];
  // RFC 4291, section 2.2. `gap` is the number of groups before `::`.
  let count = 0;
  let gap = -1;
  let at = 0;
  if (startsWithGap(text, 0)) {
    gap = 0;
    at = 2;
  }
  while (at < text.length) {
    const end = endOfNumber(text, at);
    if (end < text.length && text[end] === ".") {
      const isAlone = count === 0 && gap === -1;
      if (count > 6 || !readIpv4(text, at, groups, isAlone ? 6 : count)) {
        return undefined;
      }
      if (isAlone) {
        groups[5] = 0xffff;
        return { isIpv4: true, groups };
      }
      count += 2;
      break;
    }
    if (end === at || end - at > 4 || count === 8) {
      return undefined;
    }
    groups[count] = readNumber(text, at, end, 16);
    count += 1;
    if (end === text.length) {
      break;
    }
    if (text[end] !== ":") {
      return undefined;
    }
    if (startsWithGap(text, end)) {
      if (gap !== -1) {
        return undefined;
      }
      gap = count;
      at = end + 2;
    } else {
      at = end + 1;
      if (at === text.length) {
        return undefined;
      }
    }
  }
  if (gap === -1 ? count !== 8 : count === 8) {
    return undefined;
  }
  if (gap !== -1) {
    moveToEnd(groups, gap, count);
  }
  return { isIpv4: isMapped(groups), groups };
}

function startsWithGap(text: string, at: number): boolean {
  return at + 1 < text.length && text[at] === ":" && text[at + 1] === ":";
}

/** Returns the index after the hexadecimal digits. */
function endOfNumber(text: string, from: number): number {
  let end = from;
  while (end < text.length && digits[text[end] as string] !== undefined) {
    end += 1;
  }
  return end;
}

function readNumber(text: string, from: number, end: number, base: number): number {
  let value = 0;
  for (let at = from; at < end; at += 1) {
    value = value * base + (digits[text[at] as string] as number);
  }
  return value;
}

/** Reads an address in dotted decimal, which ends the text, into two groups; false if it is invalid. */
function readIpv4(text: string, from: number, groups: number[], index: number): boolean {
  let at = from;
  for (let octet = 0; octet < 4; octet += 1) {
    let end = at;
    while (end < text.length && (digits[text[end] as string] ?? 10) < 10) {
      end += 1;
    }
    const value = readNumber(text, at, end, 10);
    const hasLeadingZero = end - at > 1 && text[at] === "0";
    if (end === at || end - at > 3 || value > 255 || hasLeadingZero) {
      return false;
    }
    if (octet < 3 ? end === text.length || text[end] !== "." : end !== text.length) {
      return false;
    }
    const group = index + (octet >> 1);
    groups[group] = ((groups[group] as number) << 8) | value;
    at = end + 1;
  }
  return true;
}

/** Moves the groups after the gap to the end, and fills the gap with zeros. */
function moveToEnd(groups: number[], gap: number, count: number): void {
  for (let moved = 1; moved <= count - gap; moved += 1) {
    groups[8 - moved] = groups[count - moved] as number;
    groups[count - moved] = 0;
  }
}

function isMapped(groups: readonly number[]): boolean {
  for (let index = 0; index < 5; index += 1) {
    if (groups[index] !== 0) {
      return false;
    }
  }
  return groups[5] === 0xffff;
}
