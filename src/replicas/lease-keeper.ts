import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { type Listeners, createListeners } from "@flowgate/base/listeners";
import type { Cluster, LeaseReply } from "../store/cluster.ts";
import { type Fence, type Instant, addMs, msUntil, currentInstant } from "@flowgate/runtime";

type KeeperOptions = {
  readonly cluster: Pick<Cluster, "lease" | "onChange">;
  readonly leaseMs: number;
  /** True if another replica should hold the lease. Asked before each renewal, and when the replicas have changed. */
  readonly yields: () => boolean;
  /** True if this replica can't run flows yet. Asked before it acquires the lease. Defaults to false. */
  readonly isPreparing?: () => boolean;
  readonly log: Logger;
};

type Held = { readonly fence: Fence; deadline: Instant; readonly renewals: Listeners<Instant> };

export function openLeaseKeeper(options: KeeperOptions): LeaseKeeper {
  const keeper = new LeaseKeeper(options);
  keeper.start();
  return keeper;
}

/**
 * Keeps trying to hold the lease. Disposing releases it: flows must have stopped before.
 *
 * The lease ends by the clock of the database, `leaseMs` after it has received the request. The deadline is counted from before
 * the request was sent, and is earlier by a tenth, since clocks differ in speed and flows do not stop at once.
 */
export class LeaseKeeper implements AsyncDisposable {
  readonly #cluster: KeeperOptions["cluster"];
  readonly #yields: KeeperOptions["yields"];
  readonly #isPreparing: () => boolean;
  readonly #log: Logger;
  readonly #leaseMs: number;
  readonly #usableMs: number;
  /** How long before the deadline flows are stopped. */
  readonly #stopMs: number;
  readonly #renewMs: number;
  readonly #retryMs: number;
  readonly #changes = createListeners<void>();
  readonly #wakes: Disposable;
  #held: Held | undefined;
  #isKnown = false;
  #isWoken = false;
  #attempt: Promise<void> | undefined;
  #attemptTimer: NodeJS.Timeout | undefined;
  #stopTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #closed: Promise<void> | undefined;

  constructor({ cluster, leaseMs, yields, isPreparing = () => false, log }: KeeperOptions) {
    this.#cluster = cluster;
    this.#yields = yields;
    this.#isPreparing = isPreparing;
    this.#log = log;
    this.#leaseMs = leaseMs;
    this.#usableMs = 0.9 * leaseMs;
    this.#stopMs = 0.2 * leaseMs;
    this.#renewMs = leaseMs / 3;
    this.#retryMs = leaseMs / 10;
    this.#wakes = cluster.onChange(() => this.#wake());
  }

  /**
   * The lease while flows may run, the same object until it is lost. It is undefined some time before its deadline, so that
   * flows can be stopped in an orderly way; when another replica holds it, its deadline has passed.
   */
  fence(): Fence | undefined {
    return this.#held?.fence;
  }

  /** Calls the listener when `fence` has changed, and when it is known for the first time. Disposing ends the subscription. */
  onChange(listener: () => void): Disposable {
    return this.#changes.add(listener);
  }

  /** Requests the lease now. */
  start(): void {
    void this.#request(() => this.#hold());
  }

  /** Releases the lease if another replica should hold it, see `yields`. Flows must have stopped before. Never rejects. */
  async handOver(): Promise<void> {
    if (this.#isClosed || this.#held !== undefined || !this.#yields()) {
      return;
    }
    if (this.#attempt !== undefined) {
      await this.#attempt;
      return this.handOver();
    }
    await this.#request(async () => {
      await this.#release();
      this.#scheduleAttempt(this.#retryMs);
    });
  }

  /** After `leaseMs` the lease has expired, whether or not its release succeeded. */
  [Symbol.asyncDispose](): Promise<void> {
    return (this.#closed ??= Promise.race([this.#close(), delay(this.#leaseMs, undefined, { ref: false })]));
  }

  async #close(): Promise<void> {
    this.#isClosed = true;
    this.#wakes[Symbol.dispose]();
    clearTimeout(this.#attemptTimer);
    clearTimeout(this.#stopTimer);
    this.#held = undefined;
    await this.#attempt;
    await this.#release();
  }

  /** The replicas have changed. */
  #wake(): void {
    if (this.#isClosed) {
      return;
    }
    if (this.#held !== undefined) {
      if (this.#yields()) {
        this.#yieldLease();
      }
      return;
    }
    // The reply to an attempt in progress may be older than the change.
    if (this.#attempt === undefined) {
      this.start();
    } else {
      this.#isWoken = true;
    }
  }

  /** Requests are made one after another, so that the lease is not acquired while it is being released. */
  #request(send: () => Promise<void>): Promise<void> {
    clearTimeout(this.#attemptTimer);
    this.#isWoken = false;
    this.#attempt = send().finally(() => {
      this.#attempt = undefined;
    });
    return this.#attempt;
  }

  async #hold(): Promise<void> {
    const sent = currentInstant();
    let nextMs = this.#retryMs;
    try {
      const isRefused = this.#yields() || (this.#held === undefined && this.#isPreparing());
      const reply = isRefused ? undefined : await this.#cluster.lease.hold(this.#leaseMs);
      if (this.#isClosed) {
        return;
      }
      // This may have changed during the request: the lease is then released when the flows have stopped.
      const isYielded = reply === undefined || (reply.isHeld && this.#yields());
      if (isYielded) {
        this.#yieldLease();
      } else {
        nextMs = this.#handleReply(reply, sent);
      }
      if (!this.#isKnown || (isYielded && reply !== undefined)) {
        this.#isKnown = true;
        this.#changes.notify();
      }
    } catch (err) {
      this.#log.warn({ err }, "the lease could not be acquired or renewed");
    }
    this.#scheduleAttempt(nextMs);
  }

  #scheduleAttempt(inMs: number): void {
    if (!this.#isClosed) {
      this.#attemptTimer = setTimeout(() => this.start(), this.#isWoken ? 1 : inMs);
    }
  }

  async #release(): Promise<void> {
    try {
      await this.#cluster.lease.release();
    } catch (err) {
      this.#log.warn({ err }, "the lease could not be released: it ends by itself");
    }
  }

  /** Returns the time until the next attempt. */
  #handleReply(reply: LeaseReply, sent: Instant): number {
    if (!reply.isHeld) {
      if (this.#held !== undefined) {
        this.#held.deadline = sent;
      }
      this.#lose("since another replica holds it");
      return Math.max(reply.forMs, 1);
    }
    const deadline = addMs(sent, this.#usableMs);
    // The reply was late.
    if (msUntil(deadline) <= this.#stopMs) {
      return 1;
    }
    this.#extend(reply.token, deadline);
    return Math.max(msUntil(addMs(sent, this.#renewMs)), 1);
  }

  #extend(token: number, deadline: Instant): void {
    if (this.#held !== undefined && this.#held.fence.token !== token) {
      this.#lose("since another replica held it in between");
    }
    clearTimeout(this.#stopTimer);
    const stopInMs = msUntil(deadline) - this.#stopMs;
    this.#stopTimer = setTimeout(() => this.#lose("since it could not be renewed in time"), stopInMs);
    if (this.#held === undefined) {
      this.#held = createHeld(token, deadline);
      this.#log.info({ token }, "this replica holds the lease");
      this.#changes.notify();
    } else {
      this.#held.deadline = deadline;
      this.#held.renewals.notify(deadline);
    }
  }

  #lose(reason: string): void {
    this.#stopFlows(`the lease is lost, ${reason}`);
  }

  #yieldLease(): void {
    this.#stopFlows("node types or modules are missing here, and another replica may have them");
  }

  #stopFlows(reason: string): void {
    clearTimeout(this.#stopTimer);
    if (this.#held === undefined) {
      return;
    }
    this.#held = undefined;
    this.#log.warn(`the flows are stopped: ${reason}`);
    this.#changes.notify();
  }
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
