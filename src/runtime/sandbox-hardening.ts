import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { resolve } from "node:path";
import v8 from "node:v8";

/** Parts of Node that it does not document. */
type Internals = {
  _kill: (pid: number, signal: number) => number;
  _debugProcess: unknown;
  _debugEnd: unknown;
};
type PipePrototype = {
  connect: (this: object, request: object, path: unknown) => number;
  bind: (this: object, path: unknown) => number;
};

// As libuv returns them.
const EPERM = -os.constants.errno.EPERM;
const EACCES = -os.constants.errno.EACCES;

/**
 * Closes what Node's permission model leaves open: signals to other processes and their priority, V8's
 * flags, of which some name files to write, and Unix sockets. To be called before any node is loaded.
 *
 * The functions are replaced below Node's own JavaScript where it has such a place, so that no other way
 * leads to them. What flows may spawn is outside of all limits, and so are they then.
 */
export function hardenSandbox(): void {
  if (process.permission.has("child")) return;
  closeSignals();
  closePriority();
  closeUnixSockets();
  v8.setFlagsFromString = denied;
  syncBuiltinESMExports();
}

/** A flow could open the parent's debugger by SIGUSR1, and stop or end it by others. */
function closeSignals(): void {
  const internals = process as unknown as Internals;
  const kill = internals._kill;
  const { pid: own } = process;
  internals._kill = (pid, signal) => {
    const target = pid | 0;
    // Its group is of it alone.
    return target === own || target === -own || target === 0 ? kill(target, signal) : EPERM;
  };
  internals._debugProcess = denied;
  internals._debugEnd = denied;
}

function closePriority(): void {
  const { setPriority } = os;
  const { pid: own } = process;
  os.setPriority = (pid: number, priority?: number) => {
    if (priority === undefined) setPriority(pid);
    else if (pid === 0 || pid === own) setPriority(pid, priority);
    else denied();
  };
}

/** Behind them can be a container engine or a database; `--allow-net` allows all of them. */
function closeUnixSockets(): void {
  const pipe = prototypeOfPipes();
  const { connect, bind } = pipe;
  const { permission } = process;
  const has = permission.has.bind(permission);
  // What a flow puts in place of Function.prototype.call must not be handed the originals.
  const { apply } = Reflect;
  const toText = String;
  // Absolute, so that what is asked for and what is used are the same. One with a NUL is no file, and nobody's.
  const allowed = (path: unknown) => {
    const text = toText(path);
    const absolute = resolve(text);
    return !text.includes("\0") && has("fs.write", absolute) ? absolute : undefined;
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

function prototypeOfPipes(): PipePrototype {
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
