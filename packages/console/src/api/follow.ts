import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { type Event, EventsService } from "@flowgate/client";

type Request = Omit<
  MessageInitShape<typeof EventsService.method.watchEvents.input>,
  "$typeName" | "$unknown" | "after"
>;

type Follower = {
  readonly onEvent: (event: Event) => void;
  readonly onConnection: (isConnected: boolean) => void;
};

const firstDelayMs = 1_000;
const longestDelayMs = 30_000;

/**
 * Receives events until the signal aborts. When the connection is lost, it continues after the last event, so that nothing is missed.
 * Rejects if the user may not receive them, or the request is not valid.
 */
export async function followEvents(
  transport: Transport,
  request: Request,
  { onEvent, onConnection }: Follower,
  signal: AbortSignal,
): Promise<void> {
  const client = createClient(EventsService, transport);
  for (let after = "", delayMs = firstDelayMs; !signal.aborted;) {
    try {
      for await (const event of client.watchEvents({ ...request, after }, { signal })) {
        if (signal.aborted) {
          return;
        }
        onConnection(true);
        after = event.id || after;
        delayMs = firstDelayMs;
        onEvent(event);
      }
    } catch (error) {
      const { code } = ConnectError.from(error);
      if (code === Code.PermissionDenied || code === Code.InvalidArgument) {
        throw error;
      }
    }
    if (!signal.aborted) {
      onConnection(false);
      await new Promise((resolve) => setTimeout(resolve, delayMs));
      delayMs = Math.min(delayMs * 2, longestDelayMs);
    }
  }
}
