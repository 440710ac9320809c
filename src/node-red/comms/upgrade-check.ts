import type { IncomingMessage } from "node:http";
import { createTrust } from "../../server/pipeline/client.ts";
import { createHostCheck, isCrossOrigin } from "../../server/pipeline/guards/browser-safety.ts";

type UpgradeCheckOptions = {
  /** Host names of the service, besides its addresses and localhost. Undefined: Host is not checked, since TLS does. */
  readonly hosts: readonly string[] | undefined;
  readonly trustedProxies: readonly string[];
};

/**
 * Returns a function that returns the status with which a request for a websocket is refused, or undefined. Browsers apply no same-origin
 * policy to websockets: pages of any origin may open one, and with DNS rebinding under any name.
 */
export function createUpgradeCheck({
  hosts,
  trustedProxies,
}: UpgradeCheckOptions): (request: IncomingMessage) => number | undefined {
  const isOwn = hosts === undefined ? () => true : createHostCheck(hosts);
  const isTrusted = createTrust(trustedProxies);
  return ({ method, headers, rawHeaders, socket }) => {
    const { host = "", "x-forwarded-host": forwarded } = headers;
    const names = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === "host");
    if (method !== "GET" || names.length !== 1) {
      return 400;
    }
    const requested =
      typeof forwarded === "string" && isTrusted(socket.remoteAddress)
        ? (forwarded.split(",").at(-1)?.trim() ?? "")
        : host;
    if (![host, requested].every((name) => isOwn(name))) {
      return 421;
    }
    return isCrossOrigin({ method, headers }, requested, () => false) ? 403 : undefined;
  };
}
