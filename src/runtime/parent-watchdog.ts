import { Worker } from "node:worker_threads";
import { watchFd } from "./messages.ts";

/**
 * Ends this process and its process group, which contains what its flows have spawned, when the parent exits.
 *
 * Neither a `disconnect` event nor a signal handler runs while a flow blocks the event loop. Therefore a separate thread
 * reads a pipe that only the parent keeps open.
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
