import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createSlices } from "./slices.ts";
import { ignoreSystemError } from "./ignore-system-error.ts";

/** Returns the inodes of the sockets of a process and, if `hasChildren`, of those that it has started. */
export async function readProcessInodes(pid: number, hasChildren: boolean): Promise<ReadonlySet<string>> {
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
