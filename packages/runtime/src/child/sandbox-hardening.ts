import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { dirname, join, relative, resolve } from "node:path";
import v8 from "node:v8";
import { walkDirectory } from "@flowgate/base/directories";

/** Undocumented parts of Node. */
type Internals = { _kill: (pid: number, signal: number) => number; _debugProcess: unknown; _debugEnd: unknown };
type PipePrototype = {
  connect: (this: object, request: object, path: unknown) => number;
  bind: (this: object, path: unknown) => number;
};

const notSupported =
  "this version of Node.js lacks an internal function that is needed to restrict the signals of flows: use Node.js 26";

// Error codes as libuv returns them.
const EPERM = -os.constants.errno.EPERM;
const EACCES = -os.constants.errno.EACCES;

/**
 * Restricts what Node's permission model leaves open: signals to other processes, the priority of other processes, the user
 * and group of the process, V8's flags, some of which name files to write, Unix sockets and symbolic links. Must be called before any
 * node is loaded.
 *
 * Where possible the functions are replaced below Node's own JavaScript, so that flows can't bypass the replacement.
 * Nothing is restricted if flows may spawn processes, which would have none of these limits anyway.
 */
export function hardenSandbox(): void {
  if (process.permission.has("child")) {
    return;
  }
  restrictSignals();
  restrictPriority();
  restrictIdentity();
  restrictUnixSockets();
  restrictSymbolicLinks();
  v8.setFlagsFromString = denied;
  syncBuiltinESMExports();
}

/** A flow could open the parent's debugger with SIGUSR1, or stop or end the parent with other signals. */
function restrictSignals(): void {
  const internals = process as unknown as Internals;
  const kill = internals._kill as Internals["_kill"] | undefined;
  if (kill === undefined) {
    throw new Error(notSupported);
  }
  const { pid: ownPid } = process;
  let isCalled = false;
  internals._kill = (pid, signal) => {
    isCalled = true;
    const target = pid | 0;
    // The process group contains this process only.
    return target === ownPid || target === -ownPid || target === 0 ? kill(target, signal) : EPERM;
  };
  internals._debugProcess = denied;
  internals._debugEnd = denied;
  // Signal 0 is not sent.
  process.kill(ownPid, 0);
  if (!isCalled) {
    throw new Error(notSupported);
  }
}

function restrictPriority(): void {
  const { setPriority } = os;
  const { pid: ownPid } = process;
  os.setPriority = (pid: number, priority?: number) => {
    if (priority === undefined) {
      setPriority(pid);
    } else if (pid === 0 || pid === ownPid) {
      setPriority(pid, priority);
    } else {
      denied();
    }
  };
}

/** Root could change it, which also ends the signal at the death of the parent. */
function restrictIdentity(): void {
  const setters = ["setuid", "seteuid", "setgid", "setegid", "setgroups", "initgroups"] as const;
  for (const name of setters) {
    Object.assign(process, { [name]: denied });
  }
}

/** A Unix socket may belong to a container engine or a database, and `--allow-net` permits all of them. */
function restrictUnixSockets(): void {
  const pipe = findPipePrototype();
  const { connect, bind } = pipe;
  const { permission } = process;
  const has = permission.has.bind(permission);
  // A flow can replace Function.prototype.call, an export of node:path, String.prototype.includes, and process.cwd, which
  // `resolve` calls.
  const { apply } = Reflect;
  const toAbsolute = resolve;
  const toText = String;
  // Absolute, so that the checked path and the used one are the same.
  const allowed = (path: unknown) => {
    const absolute = toAbsolute(toText(path));
    return isPathOfFile(absolute) && has("fs.write", absolute) ? absolute : undefined;
  };
  pipe.connect = function (request, path) {
    const target = allowed(path);
    return target === undefined ? EACCES : apply(connect, this, [request, target]);
  };
  pipe.bind = function (path) {
    const target = allowed(path);
    return target === undefined ? EACCES : apply(bind, this, [target]);
  };
}

/** True if a path is absolute and without NUL, which marks an abstract socket. Uses nothing that flows can replace. */
function isPathOfFile(path: string): boolean {
  for (let at = 0; at < path.length; at += 1) {
    if (path[at] === "\0") {
      return false;
    }
  }
  return path[0] === "/";
}

function findPipePrototype(): PipePrototype {
  const { _handle: handle } = process.stdout as { _handle?: object };
  const found = handle && (Object.getPrototypeOf(handle) as Partial<PipePrototype>);
  if (found?.connect === undefined || found.bind === undefined) {
    throw new Error("the standard output of the flow runtime must be a pipe");
  }
  return found as PipePrototype;
}

function denied(): never {
  throw Object.assign(new Error("Access to this API has been restricted"), { code: "ERR_ACCESS_DENIED" });
}

/**
 * Throws if a symbolic link in the directory leads to a place where this process may not write. Node's permission model checks
 * the path of a link, but not where it leads.
 */
export function assertLinksStayInside(directory: string): void {
  const { permission } = process;
  for (const entry of walkDirectory(directory)) {
    if (!entry.isSymbolicLink()) {
      continue;
    }
    const link = join(entry.parentPath, entry.name);
    if (permission.has("fs.write", readTarget(link))) {
      continue;
    }
    throw new Error(
      `the symbolic link ${relative(directory, link)} in runtime.dir leads out of it: remove it, ` +
        "or add its target to runtime.allow.fileSystemWrite",
    );
  }
}

function readTarget(link: string): string {
  try {
    return fs.realpathSync.native(link);
  } catch {
    // A link to nothing, which a flow could create.
    return resolve(fs.realpathSync.native(dirname(link)), fs.readlinkSync(link));
  }
}

/**
 * Keeps flows from moving, linking and copying symbolic links, which could lead elsewhere then. Node's permission model keeps them from
 * creating links in other ways.
 *
 * The replacements use only what was captured before, since flows can replace every property of built-in objects. They accept only
 * strings as paths, and move files synchronously: neither the path nor the working directory can change after the check.
 */
function restrictSymbolicLinks(): void {
  const { apply } = Reflect;
  const { closeSync, cpSync, openSync, readSync, readdirSync } = fs;
  const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
  const cwd = process.cwd.bind(process);
  const buffer = new Uint8Array(1);

  /** Fails for a directory. */
  function isFile(fd: number): boolean {
    try {
      readSync(fd, buffer, 0, 1, null);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * Throws unless every file is known to be no link: a flow can take away the permissions of a directory, use up the file descriptors
   * or the stack, make a path too long, and replace the code of an error.
   */
  function assertWithoutLinks(path: string): void {
    // Throws if it is a link.
    const fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const isDirectory = !isFile(fd);
    closeSync(fd);
    if (!isDirectory) {
      return;
    }
    const names = readdirSync(path);
    for (let index = 0; index < names.length; index += 1) {
      assertWithoutLinks(`${path}/${names[index]}`);
    }
  }

  /** Returns the absolute path of files that may be moved, linked and copied; throws for others. */
  function checkSource(path: unknown): string {
    if (typeof path !== "string") {
      throw deniedLink();
    }
    const absolute = path[0] === "/" ? path : `${cwd()}/${path}`;
    try {
      assertWithoutLinks(absolute);
    } catch (error) {
      throw (error as NodeJS.ErrnoException).code === "ENOENT" ? error : deniedLink();
    }
    return absolute;
  }

  /** Returns the replacements of a function of two paths. */
  function restrict(original: typeof fs.renameSync): Pick<typeof fs, "rename" | "renameSync"> {
    const sync: typeof original = (from, to) => apply(original, fs, [checkSource(from), to]);
    const async: typeof fs.rename.__promisify__ = async (from, to) => sync(from, to);
    const withCallback = (...[from, to, callback]: Parameters<typeof fs.rename>): void => {
      try {
        sync(from, to);
      } catch (error) {
        setImmediate(callback, error as Error);
        return;
      }
      setImmediate(callback, null);
    };
    return { rename: Object.assign(withCallback, { __promisify__: async }), renameSync: sync };
  }

  const { rename, renameSync } = restrict(fs.renameSync);
  // A hard link to a symbolic link is a copy of it.
  const { rename: link, renameSync: linkSync } = restrict(fs.linkSync);
  Object.assign(fs, { rename, renameSync, link, linkSync });
  Object.assign(fs.promises, { rename: rename.__promisify__, link: link.__promisify__ });
  fs.cpSync = (from, ...rest) => apply(cpSync, fs, [checkSource(from), ...rest]);
}

function deniedLink(): Error {
  const message = "Symbolic links, and directories that contain them, can't be moved, linked or copied by flows";
  return Object.assign(new Error(message), { code: "ERR_ACCESS_DENIED" });
}
