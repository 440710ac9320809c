import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { createListeners, type Listeners } from "../listeners.ts";
import { addMs, type Fence, type Instant, msUntil, now } from "../runtime/fence.ts";
import type { Cluster, LeaseReply } from "../store/cluster.ts";

/** Keeps trying to hold the lease. Disposing releases it: flows must have stopped before. */
export interface LeaseKeeper extends AsyncDisposable {
  /**
   * The lease while flows may run, the same object until it is lost. It is undefined some time before its deadline, so that
   * flows can be stopped in an orderly way; when another replica holds it, its deadline has passed.
   */
  fence(): Fence | undefined;
  /** Calls the listener when `fence` has changed, and when it is known for the first time. Disposing ends the subscription. */
  onChange(listener: () => void): Disposable;
}

type KeeperOptions = {
  readonly cluster: Pick<Cluster, "lease" | "onChange">;
  readonly leaseMs: number;
  readonly log: Logger;
};

type Held = { readonly fence: Fence; deadline: Instant; readonly renewals: Listeners<Instant> };

/**
 * The lease ends by the clock of the database, `leaseMs` after it has received the request. The deadline is counted from before
 * the request was sent, and is earlier by a tenth, since clocks differ in speed and flows do not stop at once.
 */
export function openLeaseKeeper({ cluster, leaseMs, log }: KeeperOptions): LeaseKeeper {
  const usableMs = 0.9 * leaseMs;
  /** How long before the deadline flows are stopped. */
  const stopMs = 0.2 * leaseMs;
  const renewMs = leaseMs / 3;
  const retryMs = leaseMs / 10;
  const changes = createListeners<void>();
  let held: Held | undefined;
  let isKnown = false;
  let isClosed = false;
  let isWoken = false;
  let attempt: Promise<void> | undefined;
  let attemptTimer: NodeJS.Timeout | undefined;
  let stopTimer: NodeJS.Timeout | undefined;

  function lose(reason: string): void {
    clearTimeout(stopTimer);
    if (held === undefined) return;
    held = undefined;
    log.warn(`the lease is lost, so that the flows are stopped: ${reason}`);
    changes.notify();
  }

  function extend(token: number, deadline: Instant): void {
    if (held !== undefined && held.fence.token !== token) lose("another replica held it in between");
    clearTimeout(stopTimer);
    stopTimer = setTimeout(() => lose("it could not be renewed in time"), msUntil(deadline) - stopMs);
    if (held === undefined) {
      held = createHeld(token, deadline);
      log.info({ token }, "this replica holds the lease");
      changes.notify();
    } else {
      held.deadline = deadline;
      held.renewals.notify(deadline);
    }
  }

  /** Returns the time until the next attempt. */
  function handle(reply: LeaseReply, sent: Instant): number {
    if (!reply.isHeld) {
      if (held !== undefined) held.deadline = sent;
      lose("another replica holds it");
      return Math.max(reply.forMs, 1);
    }
    const deadline = addMs(sent, usableMs);
    // The reply was late.
    if (msUntil(deadline) <= stopMs) return 1;
    extend(reply.token, deadline);
    return Math.max(msUntil(addMs(sent, renewMs)), 1);
  }

  async function hold(): Promise<void> {
    const sent = now();
    let nextMs = retryMs;
    try {
      const reply = await cluster.lease.hold(leaseMs);
      if (isClosed) return;
      nextMs = handle(reply, sent);
      if (!isKnown) {
        isKnown = true;
        changes.notify();
      }
    } catch (err) {
      log.warn({ err }, "the lease could not be acquired or renewed");
    }
    if (!isClosed) attemptTimer = setTimeout(start, isWoken ? 1 : nextMs);
  }

  function start(): void {
    clearTimeout(attemptTimer);
    isWoken = false;
    attempt = hold().finally(() => {
      attempt = undefined;
    });
  }

  const wakes = cluster.onChange(() => {
    if (held !== undefined || isClosed) return;
    // The reply to an attempt in progress may be older than the change.
    if (attempt === undefined) start();
    else isWoken = true;
  });

  async function close(): Promise<void> {
    isClosed = true;
    wakes[Symbol.dispose]();
    clearTimeout(attemptTimer);
    clearTimeout(stopTimer);
    held = undefined;
    await attempt;
    try {
      await cluster.lease.release();
    } catch (err) {
      log.warn({ err }, "the lease could not be released: it ends by itself");
    }
  }

  start();
  let closed: Promise<void> | undefined;
  return {
    fence: () => held?.fence,
    onChange: (listener) => changes.add(listener),
    // After `leaseMs` the lease has expired, whether or not its release succeeded.
    [Symbol.asyncDispose]: () => (closed ??= Promise.race([close(), delay(leaseMs, undefined, { ref: false })])),
  };
}

function createHeld(token: number, deadline: Instant): Held {
  const renewals = createListeners<Instant>();
  const held: Held = {
    deadline,
    renewals,
    fence: { token, deadline: () => held.deadline, onRenewed: (listener) => renewals.add(listener) },
  };
  return held;
}
