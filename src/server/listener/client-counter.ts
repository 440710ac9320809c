import { clientKeyOf } from "../../auth/client-key.ts";
import type { ListenerOptions } from "./options.ts";

/** Counts what each source has at once: connections, or calls. */
export type ClientCounter = {
  /** Undefined where the source has as many as it may have; else what to call, once, when this one has ended. */
  admit(address: string | undefined): (() => void) | undefined;
};

/** Each source may have `most`; a proxy, which connects for many clients, any number. */
export function createClientCounter(most: number, isProxy: ListenerOptions["isProxy"]): ClientCounter {
  type Source = { readonly key: string; count: number };
  const sources = new Map<string, Source>();
  // Calls of one client often follow each other.
  let lastAddress: string | undefined;
  let last: Source | undefined;

  const find = (address: string): Source => {
    if (last === undefined || address !== lastAddress || last.count === 0) {
      const key = clientKeyOf(address);
      last = sources.get(key) ?? { key, count: 0 };
      lastAddress = address;
      sources.set(key, last);
    }
    return last;
  };

  return {
    admit(address = "") {
      if (isProxy(address)) {
        return () => {};
      }
      const source = find(address);
      if (source.count >= most) {
        return undefined;
      }
      source.count += 1;
      return () => {
        source.count -= 1;
        if (source.count === 0) {
          sources.delete(source.key);
        }
      };
    },
  };
}
