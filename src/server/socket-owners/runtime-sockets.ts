import type { Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { RuntimeSockets } from "../listener/options.ts";
import { createLocalCheck } from "./local-check.ts";
import { readProcessInodes } from "./process-inodes.ts";
import { noInode, readPeerInodes } from "./peer-inodes.ts";

export type RuntimeProcess = {
  /** undefined: it does not run. */
  readonly processId: () => number | undefined;
  /** Whether flows can start further processes. */
  readonly hasChildren: boolean;
};

/** After a lookup, the next one waits for this many times its duration, so that lookups take a part of the time only. */
const pauseFactor = 2;

/** A lookup that had to wait for other work does not delay the next one for as long. */
const maxPauseMs = 100;

const noInodes: ReadonlySet<string> = new Set();

/**
 * Recognises the connections of the flow runtime by the owner of the other end, as Linux lists it in /proc: `/proc/self/net/tcp` has the
 * inode of each socket, and `/proc/<pid>/fd` links to the inodes of a process. The inode of a socket that its process has
 * closed is 0. A connection that was reset is not listed at all, unlike one whose addresses the kernel translates.
 *
 * Calls during a lookup share the next one.
 */
export function createRuntimeSockets({ processId, hasChildren }: RuntimeProcess): RuntimeSockets {
  const isLocal = createLocalCheck();
  let next: { readonly sockets: Socket[]; readonly found: ReturnType<RuntimeSockets["find"]> } | undefined;
  let previous: Promise<unknown> = Promise.resolve();
  let startMs = 0;

  const lookUp: RuntimeSockets["find"] = async (sockets) => {
    const inodes = await readPeerInodes(sockets);
    const pid = processId();
    const owned = pid === undefined || inodes.size === 0 ? noInodes : await readProcessInodes(pid, hasChildren);
    const found = new Map<Socket, number | "abandoned">();
    for (const [socket, inode] of inodes) {
      if (inode === noInode) {
        found.set(socket, "abandoned");
      } else if (pid !== undefined && owned.has(inode)) {
        found.set(socket, pid);
      }
    }
    return found;
  };

  return {
    isPossible: (address) => process.platform === "linux" && isLocal(address) && processId() !== undefined,
    find(accepted) {
      if (next === undefined) {
        const sockets: Socket[] = [];
        const found = previous.then(() => {
          next = undefined;
          startMs = performance.now();
          return lookUp(sockets);
        });
        previous = found.then(() => {
          const pauseMs = Math.min(maxPauseMs, pauseFactor * (performance.now() - startMs));
          return delay(pauseMs, undefined, { ref: false });
        });
        next = { sockets, found };
      }
      next.sockets.push(...accepted);
      return next.found;
    },
  };
}
