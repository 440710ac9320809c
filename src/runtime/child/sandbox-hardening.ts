import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { resolve } from "node:path";
import v8 from "node:v8";
import { restrictSymbolicLinks } from "./symbolic-links.ts";

/** Undocumented parts of Node. */
type Internals = {
  _kill: (pid: number, signal: number) => number;
  _debugProcess: unknown;
  _debugEnd: unknown;
};
type PipePrototype = {
  connect: (this: object, request: object, path: unknown) => number;
  bind: (this: object, path: unknown) => number;
};

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
  const kill = internals._kill;
  const { pid: ownPid } = process;
  internals._kill = (pid, signal) => {
    const target = pid | 0;
    // The process group contains this process only.
    return target === ownPid || target === -ownPid || target === 0 ? kill(target, signal) : EPERM;
  };
  internals._debugProcess = denied;
  internals._debugEnd = denied;
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

/** Whether a path is absolute and without NUL, which marks an abstract socket. Uses nothing that flows can replace. */
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
