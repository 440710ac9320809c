import { isIP } from "node:net";

/**
 * Returns a test whether a Host header or :authority names this service. With DNS rebinding, a page makes its own name
 * resolve to an address of this service and becomes same-origin with it, but its requests still have that name in Host.
 *
 * Any IP address passes, since no name was resolved then. `names` are host names or addresses.
 */
export function createHostCheck(names: readonly string[]): (host: string) => boolean {
  const own = new Set(["localhost", ...names.map((name) => hostnameOf(name))]);
  // Caches the last result, since most requests have the same Host.
  let last: string | undefined;
  let isOwn = false;
  return (host) => {
    if (host !== last) {
      const hostname = hostnameOf(host);
      isOwn = hostname !== undefined && (own.has(hostname) || isIP(hostname) !== 0);
      last = host;
    }
    return isOwn;
  };
}

/** The host name in lower case, without port, brackets and trailing dot; undefined: invalid (RFC 9110, section 7.2). */
function hostnameOf(host: string): string | undefined {
  const [, ipv6, name] = /^(?:\[([\da-f:.]+)\]|([\w-]+(?:\.[\w-]+)*)\.?)(?::\d{0,5})?$/i.exec(host) ?? [];
  return (ipv6 ?? name)?.toLowerCase();
}
