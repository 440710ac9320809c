import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from "node:fs";
import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { setImmediate, setTimeout as delay } from "node:timers/promises";
import { isLoopback } from "../loopback.ts";
import type { RuntimeSockets } from "./listener/options.ts";
import { endpointsOf, plainOf } from "./socket-endpoints.ts";

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

/** How long a lookup goes on before other work gets as much time. */
const sliceMs = 2;

/** The kernel returns a page at once. */
const tableChunkBytes = 16 * 1024;

const noInode = "0";

const addressesMaxAgeMs = 10_000;

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
    const inodes = await readInodes(sockets);
    const owned = new Set<string>();
    const pid = processId();
    if (pid !== undefined && inodes.size > 0) {
      for (const process of hasChildren ? await readGroup(pid) : [pid]) {
        await addInodes(process, owned);
      }
    }
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

/** The inodes of the other ends of connections within this machine; `noInode` where there is none any more. */
async function readInodes(sockets: readonly Socket[]): Promise<ReadonlyMap<Socket, string>> {
  const otherEnds = new Map<string, Socket>();
  const ownEnds = new Map<string, Socket>();
  const inodes = new Map<Socket, string>();
  const giveWay = createSlices();
  for (const socket of sockets) {
    await giveWay();
    for (const endpoints of endpointsOf(socket)) {
      otherEnds.set(endpoints, socket);
      ownEnds.set(endpoints.split(" ").toReversed().join(" "), socket);
    }
  }
  const listed = new Set<Socket>();
  let isComplete = true;
  for (const file of ["/proc/self/net/tcp", "/proc/self/net/tcp6"]) {
    if (inodes.size < sockets.length) {
      const isRead = await readTable(file, (endpoints, rest) => {
        const socket = otherEnds.get(endpoints);
        if (socket !== undefined) {
          inodes.set(socket, rest.trim().split(/ +/)[6] ?? "");
        }
        const own = ownEnds.get(endpoints);
        if (own !== undefined) {
          listed.add(own);
        }
      });
      isComplete &&= isRead;
    }
  }
  for (const socket of isComplete ? sockets : []) {
    if (!inodes.has(socket) && !listed.has(socket)) {
      inodes.set(socket, noInode);
    }
  }
  return inodes;
}

/**
 * Calls back with the addresses of each line of a table, and with what follows them. Returns whether all were read. Reads in parts: a
 * table can have megabytes, and the kernel is slow to print it. Synchronously: a thousand reads of a page would each wait for a turn
 * of the event loop, and for a thread that is not checking a password, while those who connect wait for the result.
 */
async function readTable(path: string, onLine: (endpoints: string, rest: string) => void): Promise<boolean> {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const buffer = Buffer.allocUnsafe(tableChunkBytes);
    let rest = "";
    const giveWay = createSlices();
    for (;;) {
      const bytesRead = readSync(fd, buffer);
      if (bytesRead === 0) {
        return true;
      }
      const lines = `${rest}${buffer.toString("latin1", 0, bytesRead)}`.split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        // "  sl: local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode …"
        const start = line.indexOf(": ") + 2;
        const end = line.indexOf(" ", line.indexOf(" ", start) + 1);
        onLine(line.slice(start, end), line.slice(end));
      }
      await giveWay();
    }
  } catch (error) {
    ignoreSystemError(error);
    // Without IPv6, there is no table for it.
    return (error as NodeJS.ErrnoException).code === "ENOENT";
  } finally {
    if (fd !== undefined) {
      closeSync(fd);
    }
  }
}

/** Adds the inodes of the sockets of a process. */
async function addInodes(pid: number, inodes: Set<string>): Promise<void> {
  const directory = `/proc/${pid}/fd`;
  const giveWay = createSlices();
  for (const fd of readNames(directory)) {
    await giveWay();
    try {
      const [, inode] = /^socket:\[(\d+)\]$/.exec(readlinkSync(`${directory}/${fd}`)) ?? [];
      if (inode !== undefined) {
        inodes.add(inode);
      }
    } catch (error) {
      ignoreSystemError(error);
    }
  }
}

/** The processes in the session or the process group of one, and those that they have started. */
async function readGroup(leader: number): Promise<ReadonlySet<number>> {
  const group = new Set([leader]);
  // In the order of their ids, in which parents usually come before their children.
  const pids = readNames("/proc")
    .map(Number)
    .filter((pid) => pid > 0)
    .toSorted((one, other) => one - other);
  const giveWay = createSlices();
  for (const pid of pids) {
    await giveWay();
    try {
      // "pid (name) state ppid pgrp session …"; the name can contain anything.
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      const [, parent, processGroup, session] = stat
        .slice(stat.lastIndexOf(")") + 2)
        .split(" ", 4)
        .map(Number);
      if (processGroup === leader || session === leader || (parent !== undefined && group.has(parent))) {
        group.add(pid);
      }
    } catch (error) {
      ignoreSystemError(error);
    }
  }
  return group;
}

/**
 * Returns a function that lets other work go on when a slice is over: for many turns of the event loop, since each accepts one
 * connection only, and operators wait behind thousands of connections of flows.
 */
function createSlices(): () => Promise<void> | undefined {
  let endMs = performance.now() + sliceMs;
  const giveWay = async (): Promise<void> => {
    const resumeMs = performance.now() + sliceMs;
    while (performance.now() < resumeMs) {
      await setImmediate();
    }
    endMs = performance.now() + sliceMs;
  };
  return () => (performance.now() < endMs ? undefined : giveWay());
}

function readNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    ignoreSystemError(error);
    return [];
  }
}

/** A process can end, or become another user's, at any time, and descriptors can be used up: its connections are not recognised. */
function ignoreSystemError(error: unknown): void {
  if (!(error instanceof Error && "syscall" in error)) {
    throw error;
  }
}

/** Returns a test whether an address is one of this machine. */
function createLocalCheck(): (address: string) => boolean {
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
