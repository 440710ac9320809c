import { clientKeyOf } from "../../auth/client-key.ts";
import type { ListenerOptions } from "./options.ts";

/** Counts concurrent connections or calls per client. */
export type ClientCounter = {
  /**
   * Returns a function that must be called once, at the end; undefined if the client has reached its limit, which `reserve` raises
   * for this one.
   */
  admit(address: string | undefined, reserve?: number): (() => void) | undefined;
};

/** Each client may have `maxPerClient` at once. Proxies, which connect for many clients, are not limited. */
export function createClientCounter(maxPerClient: number, isProxy: ListenerOptions["isProxy"]): ClientCounter {
  type Client = { readonly key: string; count: number };
  const clients = new Map<string, Client>();
  // Cached, since consecutive calls often come from the same client.
  let lastAddress: string | undefined;
  let last: Client | undefined;

  const find = (address: string): Client => {
    if (last === undefined || address !== lastAddress || last.count === 0) {
      const key = clientKeyOf(address);
      last = clients.get(key) ?? { key, count: 0 };
      lastAddress = address;
      clients.set(key, last);
    }
    return last;
  };

  return {
    admit(address = "", reserve = 0) {
      if (isProxy(address)) {
        return () => {};
      }
      const client = find(address);
      if (client.count >= maxPerClient + reserve) {
        return undefined;
      }
      client.count += 1;
      return () => {
        client.count -= 1;
        if (client.count === 0) {
          clients.delete(client.key);
        }
      };
    },
  };
}
