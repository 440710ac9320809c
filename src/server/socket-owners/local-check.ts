import { networkInterfaces } from "node:os";
import { isLoopback } from "../../base/addresses.ts";
import { plainOf } from "./endpoints.ts";
import { ignoreSystemError } from "./ignore-system-error.ts";

const addressesMaxAgeMs = 10_000;

/** Returns a test whether an address is one of this machine. */
export function createLocalCheck(): (address: string) => boolean {
  let own = new Set<string>();
  let lastReadMs = Number.NEGATIVE_INFINITY;
  return (address) => {
    const plain = plainOf(address);
    if (isLoopback(plain)) {
      return true;
    }
    const nowMs = performance.now();
    if (nowMs - lastReadMs > addressesMaxAgeMs) {
      lastReadMs = nowMs;
      own = readAddresses() ?? own;
    }
    return own.has(plain);
  };
}

/** The addresses of this machine; undefined if they can't be read, for which a descriptor is needed. */
function readAddresses(): Set<string> | undefined {
  try {
    return new Set(Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address)));
  } catch (error) {
    ignoreSystemError(error);
    return undefined;
  }
}
