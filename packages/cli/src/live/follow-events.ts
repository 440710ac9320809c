import { setTimeout as delay } from "node:timers/promises";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { type CallOptions, Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, type Event, type EventsService } from "@flowgate/client";
import type { Reason } from "@flowgate/flows/errors";
import { hasCode } from "../client/explain-error.ts";

export type WatchRequest = Omit<
  MessageInitShape<(typeof EventsService.method.watchEvents)["input"]>,
  "$typeName" | "lastEventId"
>;

export type FollowOptions = {
  readonly watch: (request: WatchRequest, options: CallOptions) => AsyncIterable<Event>;
  readonly request: WatchRequest;
  readonly signal: AbortSignal;
  /** True if the events that describe the current state are returned too. */
  readonly withState: boolean;
  /** The connection was lost, and is made again. */
  readonly onLost: () => void;
  /** How long the first event may take. */
  readonly connectMs?: number;
  /** A connection on which nothing arrives for so long is lost. The service sends a bookmark at least every 30 seconds. */
  readonly idleMs?: number;
};

const baseDelayMs = 250;
const maxDelayMs = 10_000;

/**
 * The events of a stream, which resumes after the last one when the connection is lost. Ends when the signal is aborted. Throws the
 * error of the call if there was never a connection, or if a new one is no remedy.
 */
export async function* followEvents({
  watch,
  request,
  signal,
  withState,
  onLost,
  connectMs = 60_000,
  idleMs = 90_000,
}: FollowOptions): AsyncGenerator<Event, void> {
  let after = request.after ?? "";
  let hasConnected = false;
  /** Since there was a connection that lasted. */
  let attempts = 0;
  while (!signal.aborted) {
    const idle = new AbortController();
    const timeout = new ConnectError("the operation timed out", Code.DeadlineExceeded);
    let timer = setTimeout(() => idle.abort(timeout), connectMs);
    let isOpen = false;
    let isState = true;
    try {
      const stream = watch({ ...request, after }, { signal: AbortSignal.any([signal, idle.signal]), timeoutMs: 0 });
      for await (const event of stream) {
        clearTimeout(timer);
        timer = setTimeout(() => idle.abort(timeout), idleMs);
        // The first event comes at once, also where connections do not last.
        attempts = isOpen ? 0 : attempts;
        isOpen = true;
        hasConnected = true;
        // The ids of the events that describe the current state are older.
        isState &&= event.kind.case !== "snapshotEnd" && event.kind.case !== "bookmark";
        after = isState ? after : event.id;
        if (withState || !isState || event.kind.case === "dropped") {
          yield event;
        }
      }
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      if (!hasConnected || !isTemporary(error, isOpen)) {
        throw error;
      }
    } finally {
      clearTimeout(timer);
    }
    if (attempts === 0) {
      onLost();
    }
    await delay(backoffMs(attempts), undefined, { signal }).catch(() => {});
    attempts += 1;
  }
}

/** Random, so that the clients of a service that was restarted do not all connect at the same time. */
function backoffMs(attempts: number): number {
  return Math.min(maxDelayMs, baseDelayMs * 2 ** Math.min(attempts, 16)) * (0.5 + Math.random() / 2);
}

const temporaryReasons: ReadonlySet<string> = new Set<Reason>(["unavailable", "temporarily_unavailable", "overloaded"]);
const temporaryCodes = new Set([Code.Unavailable, Code.Aborted, Code.DeadlineExceeded, Code.ResourceExhausted]);
/** ENOENT: the Unix socket of a service that is not running. */
const networkCodes = /^(ECONN\w+|EHOSTUNREACH|ENETUNREACH|ENETDOWN|ETIMEDOUT|EPIPE|ENOTFOUND|EAI_AGAIN|ENOENT)$/;

/** True if a new connection may succeed. A stream that was open, and ends without a reason, was cut off. */
function isTemporary(error: unknown, wasOpen: boolean): boolean {
  if (!(error instanceof ConnectError)) {
    return false;
  }
  const [info] = error.findDetails(ErrorInfoSchema);
  if (info?.domain === "flowgate") {
    return temporaryReasons.has(info.reason);
  }
  const isRefused = error.code === Code.Unauthenticated || error.code === Code.PermissionDenied;
  return (wasOpen && !isRefused) || temporaryCodes.has(error.code) || hasCode(error, networkCodes);
}
