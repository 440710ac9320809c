import { closeSync, openSync, readSync } from "node:fs";
import { isIPv4, type Socket } from "node:net";
import { endianness } from "node:os";
import { setImmediate } from "node:timers/promises";
import { ipv6Groups } from "../../base/addresses.ts";
import { hasCode } from "../../base/error-code.ts";

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
    return hasCode(error, "ENOENT");
  } finally {
    if (fd !== undefined) {
      closeSync(fd);
    }
  }
}

/**
 * The addresses of a connection from the view of its other end, as in `/proc/net/tcp` and `/proc/net/tcp6`: local and remote
 * address in hexadecimal, with ports. An IPv4 connection can be in either file. Empty for a closed socket.
 */
function endpointsOf({ localAddress, localPort, remoteAddress, remotePort }: Socket): readonly string[] {
  if (localAddress === undefined || remoteAddress === undefined) {
    return [];
  }
  const ports = [formatPort(remotePort), formatPort(localPort)];
  const [remote, local] = [plainOf(remoteAddress), plainOf(localAddress)];
  const join = (format: (address: string) => string): string =>
    `${format(remote)}:${ports[0]} ${format(local)}:${ports[1]}`;
  return isIPv4(remote) ? [join(formatIPv4), join((address) => `${mapped}${formatIPv4(address)}`)] : [join(formatIPv6)];
}

/** Without the prefix of an IPv4 address mapped into IPv6, and without a zone. */
export function plainOf(address: string): string {
  return address.replace(/%.*$/, "").replace(/^::ffff:(?=[\d.]+$)/i, "");
}

function formatPort(port = 0): string {
  return port.toString(16).toUpperCase().padStart(4, "0");
}

function formatIPv4(address: string): string {
  return formatWord(Buffer.from(address.split(".").map(Number)));
}

function formatIPv6(address: string): string {
  const bytes = Buffer.from(ipv6Groups(address).flatMap((group) => [group >> 8, group & 255]));
  return [0, 4, 8, 12].map((at) => formatWord(bytes.subarray(at, at + 4))).join("");
}

/** The kernel prints words of 32 bits in the byte order of the machine. */
function formatWord(bytes: Buffer): string {
  const word = endianness() === "LE" ? bytes.readUInt32LE() : bytes.readUInt32BE();
  return word.toString(16).toUpperCase().padStart(8, "0");
}

const mapped = `0000000000000000${formatWord(Buffer.from([0, 0, 255, 255]))}`;

/** How long a lookup goes on before other work gets as much time. */
const sliceMs = 2;

/**
 * Returns a function that lets other work go on when a slice is over: for many turns of the event loop, since each accepts one
 * connection only, and operators wait behind thousands of connections of flows.
 */
export function createSlices(): () => Promise<void> | undefined {
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

/** A process can end, or become another user's, at any time, and descriptors can be used up: its connections are not recognised. */
export function ignoreSystemError(error: unknown): void {
  if (!(error instanceof Error && "syscall" in error)) {
    throw error;
  }
}
