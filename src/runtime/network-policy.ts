import {
  type Address,
  type NetworkRule,
  isUnspecified,
  matchesRule,
  parseAddress,
  parseNetworkRule,
} from "./network-rule.ts";

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

/** Throws if a rule is invalid. Like network-rule.ts, `findDenial` uses nothing that flows can replace. */
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
      return "a port of the service, its store or its collector, and no entry of the option runtime.network.allow names it";
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
