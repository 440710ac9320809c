import { clientKeyOf } from "../../auth/caller.ts";
import type { ListenerOptions } from "./listener-options.ts";

export type ClientCounter = {
  /**
   * Returns a function that must be called once, at the end; undefined if the client has reached its limit, which `reserve` raises
   * for this one.
   */
  admit(address: string | undefined, reserve?: number): (() => void) | undefined;
};

/** Each client may have `maxPerClient` at once. Proxies, which connect for many clients, are not limited. */
export function createClientCounter(maxPerClient: number, isProxy: ListenerOptions["isProxy"]): ClientCounter {
  type Client = { readonly key: string; count: number; readonly release: () => void };
  const clients = new Map<string, Client>();
  // Cached, and kept without calls, since consecutive calls often come from the same client.
  let lastAddress: string | undefined;
  let last: Client | undefined;

  const removeUnused = (client: Client): void => {
    if (client.count === 0 && client !== last) {
      clients.delete(client.key);
    }
  };

  const createClient = (key: string): Client => {
    const client: Client = {
      key,
      count: 0,
      release() {
        client.count -= 1;
        removeUnused(client);
      },
    };
    clients.set(key, client);
    return client;
  };

  const find = (address: string): Client => {
    if (last === undefined || address !== lastAddress) {
      const previous = last;
      const key = clientKeyOf(address);
      last = clients.get(key) ?? createClient(key);
      lastAddress = address;
      if (previous !== undefined) {
        removeUnused(previous);
      }
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
      return client.release;
    },
  };
}
