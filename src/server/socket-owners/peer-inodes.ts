import { closeSync, openSync, readSync } from "node:fs";
import type { Socket } from "node:net";
import { endpointsOf } from "./endpoints.ts";
import { createSlices } from "./slices.ts";
import { ignoreSystemError } from "./ignore-system-error.ts";

/** The inode of a socket that its process has closed. */
export const noInode = "0";

/** The kernel returns a page at once. */
const tableChunkBytes = 16 * 1024;

/** The inodes of the other ends of connections within this machine; `noInode` where there is none any more. */
export async function readPeerInodes(sockets: readonly Socket[]): Promise<ReadonlyMap<Socket, string>> {
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
