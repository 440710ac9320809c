import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import type { Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { isLoopback } from "../../base/addresses.ts";
import type { CountedConnection } from "./connection-table.ts";
import { createSlices, ignoreSystemError, noInode, plainOf, readPeerInodes } from "./socket-tables.ts";

/** Recognises the connections that the flow runtime has made. */
export type RuntimeSockets = {
  /** Whether a connection from this address can be one of the runtime, and that can be determined. */
  isPossible(address: string): boolean;
  /**
   * The accepted sockets whose other end belongs to the runtime, with its process id, or is abandoned: the process that had it has
   * closed it. Does not reject.
   */
  find(accepted: readonly Socket[]): Promise<ReadonlyMap<Socket, number | "abandoned">>;
};

export type RuntimeProcessInfo = {
  /** undefined: it does not run. */
  readonly processId: () => number | undefined;
  /** Whether flows can start further processes. */
  readonly hasChildren: boolean;
};

export type Owners = Awaited<ReturnType<RuntimeSockets["find"]>>;

type OnIdentified = (entries: readonly CountedConnection[], owners: Owners) => void;

/** Determines which connections the runtime has made. */
export class Identification {
  readonly #sockets: RuntimeSockets;
  readonly #maxQueued: number;
  readonly #onIdentified: OnIdentified;
  /** Those whose kind may turn out to be `runtime`. */
  readonly #unidentified = new Set<CountedConnection>();
  /** Those of them for the next lookup. */
  readonly #queued = new Set<CountedConnection>();

  /** `onIdentified` is called with the owners of the other ends of connections. */
  constructor(sockets: RuntimeSockets, maxQueued: number, onIdentified: OnIdentified) {
    this.#sockets = sockets;
    this.#maxQueued = maxQueued;
    this.#onIdentified = onIdentified;
  }

  /** Returns whether a new connection can be one of the runtime. Identifies all when there are many. */
  track(entry: CountedConnection): boolean {
    const isPossible = this.#sockets.isPossible(entry.remoteAddress);
    if (isPossible) {
      this.#unidentified.add(entry);
      this.#queued.add(entry);
      if (this.#queued.size >= this.#maxQueued) {
        void this.identifyAll();
      }
    }
    return isPossible;
  }

  async identify(entry: CountedConnection): Promise<void> {
    if (this.#unidentified.has(entry)) {
      await this.#lookUp([entry]);
    }
  }

  /** New connections do not wait until those before them are identified: they share the next lookup. */
  async identifyAll(): Promise<void> {
    if (this.#queued.size > 0) {
      await this.#lookUp([...this.#queued]);
    }
  }

  /** Must be called when a connection has closed. */
  forget(entry: CountedConnection): void {
    this.#queued.delete(entry);
    if (this.#unidentified.delete(entry)) {
      // A closed connection can't be identified any more, so it counts as one of the runtime. Nobody waits for its response.
      entry.kind = "runtime";
    }
  }

  async #lookUp(entries: readonly CountedConnection[]): Promise<void> {
    entries.forEach((entry) => this.#queued.delete(entry));
    const owners = await this.#sockets.find(entries.map(({ socket }) => socket));
    for (const entry of entries) {
      this.#unidentified.delete(entry);
      const owner = owners.get(entry.socket);
      if (owner !== undefined) {
        entry.kind = "runtime";
      }
      if (typeof owner === "number") {
        entry.runtimeProcess = owner;
      }
    }
    this.#onIdentified(entries, owners);
  }
}

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
export function createRuntimeSockets({ processId, hasChildren }: RuntimeProcessInfo): RuntimeSockets {
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

const addressesMaxAgeMs = 10_000;

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

/** Returns the inodes of the sockets of a process and, if `hasChildren`, of those that it has started. */
async function readProcessInodes(pid: number, hasChildren: boolean): Promise<ReadonlySet<string>> {
  const inodes = new Set<string>();
  for (const process of hasChildren ? await readGroup(pid) : [pid]) {
    await addInodes(process, inodes);
  }
  return inodes;
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

/** The processes in the process group of one, or in the session of its leader, and those that they have started. */
async function readGroup(member: number): Promise<ReadonlySet<number>> {
  const group = new Set([member]);
  const { processGroup } = readStat(member) ?? {};
  // Its own one, or that of what has isolated it, but never that of the service.
  const leader = processGroup === readStat(process.pid)?.processGroup ? member : processGroup;
  // In the order of their ids, in which parents usually come before their children.
  const pids = readNames("/proc")
    .map(Number)
    .filter((pid) => pid > 0)
    .toSorted((one, other) => one - other);
  const giveWay = createSlices();
  for (const pid of pids) {
    await giveWay();
    const stat = readStat(pid);
    if (stat === undefined) {
      continue;
    }
    if (stat.processGroup === leader || stat.session === leader || group.has(stat.parent)) {
      group.add(pid);
    }
  }
  return group;
}

type Stat = { readonly parent: number; readonly processGroup: number; readonly session: number };

/** Undefined if the process has exited. */
function readStat(pid: number): Stat | undefined {
  try {
    // "pid (name) state ppid pgrp session …"; the name can contain anything.
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ", 4);
    const [, parent = 0, processGroup = 0, session = 0] = fields.map(Number);
    return { parent, processGroup, session };
  } catch (error) {
    ignoreSystemError(error);
    return undefined;
  }
}

function readNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    ignoreSystemError(error);
    return [];
  }
}
