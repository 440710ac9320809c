import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { type Listeners, createListeners } from "../../base/listeners.ts";
import type { Cluster, LeaseReply } from "../../store/cluster.ts";
import { type Fence, type Instant, addMs, msUntil, now } from "../fence.ts";

/** Keeps trying to hold the lease. Disposing releases it: flows must have stopped before. */
export interface LeaseKeeper extends AsyncDisposable {
  /**
   * The lease while flows may run, the same object until it is lost. It is undefined some time before its deadline, so that
   * flows can be stopped in an orderly way; when another replica holds it, its deadline has passed.
   */
  fence(): Fence | undefined;
  /** Releases the lease if another replica should hold it, see `yields`. Flows must have stopped before. Never rejects. */
  handOver(): Promise<void>;
  /** Calls the listener when `fence` has changed, and when it is known for the first time. Disposing ends the subscription. */
  onChange(listener: () => void): Disposable;
}

type KeeperOptions = {
  readonly cluster: Pick<Cluster, "lease" | "onChange">;
  readonly leaseMs: number;
  /** Whether another replica should hold the lease. Asked before each renewal, and when the replicas have changed. */
  readonly yields: () => boolean;
  readonly log: Logger;
};

type Held = { readonly fence: Fence; deadline: Instant; readonly renewals: Listeners<Instant> };

/**
 * The lease ends by the clock of the database, `leaseMs` after it has received the request. The deadline is counted from before
 * the request was sent, and is earlier by a tenth, since clocks differ in speed and flows do not stop at once.
 */
export function openLeaseKeeper({ cluster, leaseMs, yields, log }: KeeperOptions): LeaseKeeper {
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

  function stopFlows(reason: string): void {
    clearTimeout(stopTimer);
    if (held === undefined) {
      return;
    }
    held = undefined;
    log.warn(`the flows are stopped: ${reason}`);
    changes.notify();
  }

  function lose(reason: string): void {
    stopFlows(`the lease is lost, ${reason}`);
  }

  function yieldLease(): void {
    stopFlows("node types or modules are missing here, and another replica may have them");
  }

  function extend(token: number, deadline: Instant): void {
    if (held !== undefined && held.fence.token !== token) {
      lose("since another replica held it in between");
    }
    clearTimeout(stopTimer);
    stopTimer = setTimeout(() => lose("since it could not be renewed in time"), msUntil(deadline) - stopMs);
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
      if (held !== undefined) {
        held.deadline = sent;
      }
      lose("since another replica holds it");
      return Math.max(reply.forMs, 1);
    }
    const deadline = addMs(sent, usableMs);
    // The reply was late.
    if (msUntil(deadline) <= stopMs) {
      return 1;
    }
    extend(reply.token, deadline);
    return Math.max(msUntil(addMs(sent, renewMs)), 1);
  }

  async function hold(): Promise<void> {
    const sent = now();
    let nextMs = retryMs;
    try {
      const reply = yields() ? undefined : await cluster.lease.hold(leaseMs);
      if (isClosed) {
        return;
      }
      // This may have changed during the request: the lease is then released when the flows have stopped.
      const isYielded = reply === undefined || (reply.isHeld && yields());
      if (isYielded) {
        yieldLease();
      } else {
        nextMs = handle(reply, sent);
      }
      if (!isKnown || (isYielded && reply !== undefined)) {
        isKnown = true;
        changes.notify();
      }
    } catch (err) {
      log.warn({ err }, "the lease could not be acquired or renewed");
    }
    scheduleAttempt(nextMs);
  }

  function scheduleAttempt(inMs: number): void {
    if (!isClosed) {
      attemptTimer = setTimeout(start, isWoken ? 1 : inMs);
    }
  }

  /** Requests are made one after another, so that the lease is not acquired while it is being released. */
  function request(send: () => Promise<void>): Promise<void> {
    clearTimeout(attemptTimer);
    isWoken = false;
    return (attempt = send().finally(() => {
      attempt = undefined;
    }));
  }

  function start(): void {
    void request(hold);
  }

  async function release(): Promise<void> {
    try {
      await cluster.lease.release();
    } catch (err) {
      log.warn({ err }, "the lease could not be released: it ends by itself");
    }
  }

  async function handOver(): Promise<void> {
    if (isClosed || held !== undefined || !yields()) {
      return;
    }
    if (attempt !== undefined) {
      await attempt;
      return handOver();
    }
    await request(async () => {
      await release();
      scheduleAttempt(retryMs);
    });
  }

  const wakes = cluster.onChange(() => {
    if (isClosed) {
      return;
    }
    if (held !== undefined) {
      if (yields()) {
        yieldLease();
      }
      return;
    }
    // The reply to an attempt in progress may be older than the change.
    if (attempt === undefined) {
      start();
    } else {
      isWoken = true;
    }
  });

  async function close(): Promise<void> {
    isClosed = true;
    wakes[Symbol.dispose]();
    clearTimeout(attemptTimer);
    clearTimeout(stopTimer);
    held = undefined;
    await attempt;
    await release();
  }

  start();
  let closed: Promise<void> | undefined;
  return {
    fence: () => held?.fence,
    handOver,
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
