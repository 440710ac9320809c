import type { HandlerContext } from "@connectrpc/connect";
import { peerKey } from "../auth/principal.ts";

/**
 * Does work that does not end when the client disconnects: the memory that the call has reserved is held until then. Throws if the
 * client has disconnected already.
 */
export async function retainingMemory<T>(
  { values, signal }: Pick<HandlerContext, "values" | "signal">,
  work: () => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const release = values.get(peerKey).retainMemory?.();
  try {
    return await work();
  } finally {
    release?.();
  }
}
