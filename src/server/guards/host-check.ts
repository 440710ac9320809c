import { isIP } from "node:net";

/**
 * Whether the value of a Host header, or of :authority, names this service. A page that has its own name resolve to
 * an address of ours (DNS rebinding) is of one origin with us to the browser, but sends its own name.
 *
 * Any address will do, since no name was resolved then. `names` are names, and may be addresses.
 */
export function createHostCheck(names: readonly string[]): (host: string) => boolean {
  const own = new Set(["localhost", ...names.map((name) => hostnameOf(name))]);
  // Most clients use one name, so the last verdict is worth keeping.
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

/** In lower case, without port, brackets and the dot at the end; undefined for what is no host (RFC 9110, 7.2). */
function hostnameOf(host: string): string | undefined {
  const [, ipv6, name] = /^(?:\[([\da-f:.]+)\]|([\w-]+(?:\.[\w-]+)*)\.?)(?::\d{0,5})?$/i.exec(host) ?? [];
  return (ipv6 ?? name)?.toLowerCase();
}
