import { Worker } from "node:worker_threads";
import { watchFd } from "./messages.ts";

/**
 * Ends this process, and with its process group whatever its flows have spawned, when the parent is gone.
 *
 * Neither `disconnect` nor a signal handler could run while a flow blocks the event loop. So a thread of
 * its own reads a pipe which only the parent holds open.
 */
export function startParentWatchdog(): void {
  const worker = new Worker(
    `const socket = new (require("node:net").Socket)({ fd: ${watchFd} });
     const end = () => process.kill(-process.pid, "SIGKILL");
     socket.on("error", end).on("end", end).resume();`,
    { eval: true, env: {}, resourceLimits: { maxOldGenerationSizeMb: 16 } },
  );
  worker.unref();
}
