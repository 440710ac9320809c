import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { type Event, EventsService } from "@flowgate/client";

type Request = Omit<
  MessageInitShape<typeof EventsService.method.watchEvents.input>,
  "$typeName" | "$unknown" | "after"
>;

type Follower = { readonly onEvent: (event: Event) => void; readonly onConnection: (isConnected: boolean) => void };

const firstDelayMs = 1_000;
const longestDelayMs = 30_000;

/** The service sends a bookmark at least every 30 seconds. */
const defaultIdleMs = 90_000;

/**
 * Receives events until the signal aborts. When the connection is lost, or nothing arrives on it for `idleMs`, it continues after the last
 * event, so that nothing is missed. Rejects if the user may not receive them, or the request is not valid.
 */
export async function followEvents(
  transport: Transport,
  request: Request,
  { onEvent, onConnection }: Follower,
  signal: AbortSignal,
  idleMs = defaultIdleMs,
): Promise<void> {
  const client = createClient(EventsService, transport);
  for (let after = "", delayMs = firstDelayMs; !signal.aborted;) {
    const idle = new AbortController();
    let timer = setTimeout(() => idle.abort(), idleMs);
    let isState = true;
    try {
      const stream = client.watchEvents({ ...request, after }, { signal: AbortSignal.any([signal, idle.signal]) });
      for await (const event of stream) {
        if (signal.aborted) {
          return;
        }
        clearTimeout(timer);
        timer = setTimeout(() => idle.abort(), idleMs);
        onConnection(true);
        // The ids of the events that describe the current state are older: all of them are sent again if the last one was not received.
        isState &&= event.kind.case !== "snapshotEnd" && event.kind.case !== "bookmark";
        after = isState ? after : event.id;
        delayMs = firstDelayMs;
        onEvent(event);
      }
    } catch (error) {
      const { code } = ConnectError.from(error);
      if (code === Code.PermissionDenied || code === Code.InvalidArgument) {
        throw error;
      }
    } finally {
      clearTimeout(timer);
    }
    if (!signal.aborted) {
      onConnection(false);
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      delayMs = Math.min(delayMs * 2, longestDelayMs);
    }
  }
}
