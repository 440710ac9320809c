import { sourceOf } from "../../auth/source.ts";
import type { ListenerOptions } from "./options.ts";

/** Counts what each source has at once: connections, or calls. */
export type Sources = {
  /** Undefined where the source has as many as it may have; else what to call, once, when this one has ended. */
  admit(address: string | undefined): (() => void) | undefined;
};

/** Each may have `most`; a proxy, which is there for many clients, as many as come. */
export function createSources(most: number, isProxy: ListenerOptions["isProxy"]): Sources {
  const counts = new Map<string, number>();
  return {
    admit(address = "") {
      if (isProxy(address)) {
        return () => {};
      }
      const source = sourceOf(address);
      const count = counts.get(source) ?? 0;
      if (count >= most) {
        return undefined;
      }
      counts.set(source, count + 1);
      return () => {
        const left = (counts.get(source) ?? 1) - 1;
        if (left === 0) {
          counts.delete(source);
        } else {
          counts.set(source, left);
        }
      };
    },
  };
}
