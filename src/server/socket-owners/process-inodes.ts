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

function readNames(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    ignoreSystemError(error);
    return [];
  }
}
