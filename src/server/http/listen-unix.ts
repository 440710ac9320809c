import { once } from "node:events";
import { chmodSync, lstatSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { hasCode } from "@flowgate/base/error-code";
import type { Listener } from "./listener.ts";

/** The longest path in a socket address: 108 bytes on Linux, 104 on macOS, with the terminating zero. */
const maxPathBytes = process.platform === "linux" ? 107 : 103;

/** Why a Unix socket can't be created. */
export class UnixSocketError extends Error {
  /** The path is taken by something else, which must not be replaced. */
  readonly isTaken: boolean;

  constructor(message: string, isTaken = false) {
    super(message);
    this.name = "UnixSocketError";
    this.isTaken = isTaken;
  }
}

/**
 * Listens on a Unix socket that only this user can connect to, from its first instant: it is created in a private directory and
 * moved to its path with its final mode. That also replaces the socket of a process that has exited. Rejects with a UnixSocketError.
 * Disposing removes the socket; the listener is closed separately.
 */
export async function listenUnix(listener: Listener, path: string): Promise<Disposable> {
  const bytes = Buffer.byteLength(join(dirname(path), ".sXXXXXX", "s"));
  if (Math.max(Buffer.byteLength(path), bytes) > maxPathBytes) {
    throw new UnixSocketError(
      `socket: ${path} is longer than the ${maxPathBytes} bytes that the path of a socket can have: set it to a shorter path, or to false`,
    );
  }
  await assertReplaceable(path);
  try {
    const directory = mkdtempSync(join(dirname(path), ".s"));
    try {
      const initial = join(directory, "s");
      const listening = once(listener, "listening");
      listener.listen({ path: initial, backlog: 4_096 });
      await listening;
      chmodSync(initial, 0o600);
      renameSync(initial, path);
    } finally {
      rmSync(directory, { recursive: true });
    }
  } catch (error) {
    throw new UnixSocketError(
      `socket: can't listen on ${path} (${(error as Error).message}): set it to another path, or to false`,
    );
  }
  return { [Symbol.dispose]: () => rmSync(path, { force: true }) };
}

/** Throws unless there is nothing at the path, or the socket of a process that has exited. */
async function assertReplaceable(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) {
    return;
  }
  if (!found.isSocket()) {
    throw new UnixSocketError(
      `socket: ${path} exists and is not a socket: remove it, or set socket to another path`,
      true,
    );
  }
  if (await isServed(path)) {
    throw new UnixSocketError(
      `socket: another process listens on ${path}: stop it, or set socket to another path`,
      true,
    );
  }
}

async function isServed(path: string): Promise<boolean> {
  const socket = connect(path);
  try {
    await once(socket, "connect");
    return true;
  } catch (error) {
    return !hasCode(error, "ECONNREFUSED");
  } finally {
    socket.destroy();
  }
}
