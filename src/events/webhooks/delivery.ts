import { setTimeout as delay } from "node:timers/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Logger } from "pino";
import type { Event, LogLevel } from "../../../gen/flowgate/v1/events_pb.ts";
import type { EventCase } from "../events.ts";
import type { Journal, JournaledEvent } from "../journal.ts";
import { parsePosition } from "../position.ts";
import { formatBody, type WebhookFormat } from "./message.ts";
import type { WebhookRequest, WebhookResponse } from "./send.ts";
import { signedHeaders } from "./signature.ts";

export type WebhookTarget = {
  /** Identifies it in the store, also after a restart. */
  readonly id: string;
  /** The target in logs, without secrets. */
  readonly label: string;
  readonly url: URL;
  readonly kinds: ReadonlySet<EventCase>;
  readonly level: LogLevel | undefined;
  readonly format: WebhookFormat;
  /** Undefined: requests are not signed. */
  readonly key: Buffer | undefined;
};

/** `given_up`: an event was not delivered and will not be. `lost`: the journal has removed events before they were sent. */
export const deliveryOutcomes = ["delivered", "failed", "given_up", "lost"] as const;

export type DeliveryOutcome = (typeof deliveryOutcomes)[number];

export type DeliveryOptions = {
  readonly target: WebhookTarget;
  readonly journal: Pick<Journal, "cases" | "list" | "read" | "claimCursor" | "moveCursor">;
  /** Identifies this process; only one at a time delivers to a target. */
  readonly holder: string;
  readonly send: (request: WebhookRequest, signal: AbortSignal) => Promise<WebhookResponse>;
  readonly onOutcome: (outcome: DeliveryOutcome) => void;
  readonly userAgent: string;
  readonly log: Logger;
  readonly times?: DeliveryTimes;
};

export type DeliveryTimes = {
  /** The first pause after a failure; each further one is twice as long. */
  readonly minRetryMs: number;
  readonly maxRetryMs: number;
  /** An event that is older is given up when a delivery fails. */
  readonly giveUpMs: number;
  /**
   * The time after which another process takes over from this one if it ends without release. Longer than one and a
   * half attempts.
   */
  readonly claimMs: number;
  /** The interval of reading the journal without notice of a new event. */
  readonly pollMs: number;
};

const defaultTimes: DeliveryTimes = {
  minRetryMs: 1_000,
  maxRetryMs: 10 * 60_000,
  giveUpMs: 24 * 60 * 60_000,
  claimMs: 15_000,
  pollMs: 2_000,
};

const eventsPerRead = 50;

/** The time that the current attempt has to finish when the service stops, so that its event is not sent twice. */
const graceMs = 2_000;

/** Another process delivers to the target. */
class ClaimLost extends Error {}

/**
 * Delivers the recorded events to one target, in the order in which they were recorded and each at least once: the position in the journal
 * is moved after a delivery. Disposing ends it; the current attempt may take some seconds more.
 */
export class WebhookDelivery implements AsyncDisposable {
  readonly #options: DeliveryOptions & { readonly times: DeliveryTimes };
  readonly #closing = new AbortController();
  /** Aborts the current attempt. */
  readonly #aborting = new AbortController();
  /** Resolves when the position is known, or can't be read: events from then on are delivered. */
  readonly started: Promise<void>;
  /** Resolves when nothing more is sent. */
  readonly ended: Promise<void>;
  #wake = Promise.withResolvers<void>();
  /** The position after the last delivered event, as of the last claim or move. */
  #position = "";
  #claimedMs = Number.NEGATIVE_INFINITY;
  /** The last event since a delivery has failed: the journal may have removed later ones in the meantime. */
  #delayed: Event | undefined;

  constructor(options: DeliveryOptions) {
    this.#options = { times: defaultTimes, ...options };
    const { promise, resolve } = Promise.withResolvers<void>();
    this.started = promise;
    this.ended = this.#run(resolve);
  }

  /** An event of a kind that the target wants was published. */
  notify(): void {
    this.#wake.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    const timer = setTimeout(() => this.#aborting.abort(), graceMs);
    await this.ended;
    clearTimeout(timer);
  }

  async #run(onStarted: () => void): Promise<void> {
    const { signal } = this.#closing;
    const { journal, target, holder, log, times } = this.#options;
    let hasFailed = false;
    await this.#claim().then(onStarted, onStarted);
    while (!signal.aborted) {
      try {
        if (await this.#deliverNext()) {
          break;
        }
        hasFailed = false;
      } catch (err) {
        if (!signal.aborted && !(err instanceof ClaimLost) && !hasFailed) {
          hasFailed = true;
          log.warn({ err, target: target.label }, "the journal can't be read for a webhook: it is tried again");
        }
        await this.#pause(times.pollMs);
      }
    }
    // So that another process need not wait.
    await journal.claimCursor({ name: target.id, holder, forMs: 0 }).catch(() => {});
  }

  /** Delivers what there is, and waits for more. Resolves with true if the target wants no more. */
  async #deliverNext(): Promise<boolean> {
    const { journal, target, times } = this.#options;
    const { kinds, level } = target;
    this.#wake = Promise.withResolvers();
    const after = await this.#claim();
    const { events, position } = await journal.read({ cases: kinds, level }, { after, limit: eventsPerRead });
    await this.#tellLost();
    for (const each of events) {
      this.#closing.signal.throwIfAborted();
      if (await this.#deliver(each)) {
        return true;
      }
      await this.#move(each.position);
      this.#delayed &&= each.event;
    }
    if (position !== after) {
      await this.#move(position);
    }
    if (events.length === 0) {
      await Promise.race([this.#wake.promise, this.#pause(times.pollMs)]);
    }
    return false;
  }

  /** Tells if the journal has removed events that were not read. */
  async #tellLost(): Promise<void> {
    const { journal, target, onOutcome, log } = this.#options;
    if (this.#delayed === undefined) {
      return;
    }
    const [oldest] = (await journal.list({ cases: journal.cases }, { limit: 1, order: "oldest" })).events;
    if (oldest === undefined || parsePosition(oldest.id, "id") > parsePosition(this.#delayed.id, "id")) {
      onOutcome("lost");
      log.warn(
        { target: target.label, after: this.#delayed.id },
        "the journal has removed events before they were sent to a webhook",
      );
    }
    this.#delayed = undefined;
  }

  /** Resolves with true if the target wants no more. */
  async #deliver({ event }: JournaledEvent): Promise<boolean> {
    const { target, send, onOutcome, log, times, userAgent } = this.#options;
    const body = formatBody(event, target.format);
    const id = `${event.id}${event.runtime === "" ? "" : `.${Buffer.from(event.runtime).toString("base64url")}`}`;
    const timeMs = event.time === undefined ? 0 : timestampMs(event.time);
    let refusals = 0;
    for (let attempt = 1; ; attempt += 1) {
      await this.#claim();
      const headers = { "user-agent": userAgent, ...signedHeaders(id, body, target.key) };
      let reason: string;
      let retryAfterMs: number | undefined;
      try {
        const response = await send({ url: target.url, headers, body }, this.#aborting.signal);
        if (response.status >= 200 && response.status <= 299) {
          onOutcome("delivered");
          return false;
        }
        if (response.status === goneStatus) {
          onOutcome("failed");
          log.warn({ target: target.label }, "a webhook has ended with 410: nothing more is sent until the next start");
          return true;
        }
        reason = `it responded with ${response.status}`;
        refusals += refusalStatuses.has(response.status) ? 1 : 0;
        ({ retryAfterMs } = response);
      } catch (error) {
        this.#aborting.signal.throwIfAborted();
        reason = error instanceof Error ? error.message : String(error);
      }
      const isGivenUp = refusals >= maxRefusals || Date.now() - timeMs > times.giveUpMs;
      this.#delayed = event;
      onOutcome(isGivenUp ? "given_up" : "failed");
      log.warn(
        { target: target.label, event: event.id, attempt, reason },
        isGivenUp ? "an event was not delivered to a webhook, and is given up" : "a webhook failed: it is tried again",
      );
      if (isGivenUp) {
        return false;
      }
      await this.#pauseBetweenAttempts(attempt, retryAfterMs);
    }
  }

  /** Exponential, with jitter, so that targets which failed together are not tried together. Keeps the claim. */
  async #pauseBetweenAttempts(attempt: number, retryAfterMs = 0): Promise<void> {
    const { minRetryMs, maxRetryMs, claimMs } = this.#options.times;
    const backoffMs = Math.min(maxRetryMs, minRetryMs * 2 ** Math.min(attempt - 1, 30)) * (0.75 + Math.random() / 2);
    const untilMs = performance.now() + Math.min(maxRetryMs, Math.max(backoffMs, retryAfterMs));
    for (let restMs = untilMs - performance.now(); restMs > 0; restMs = untilMs - performance.now()) {
      await this.#pause(Math.min(restMs, claimMs / 3));
      this.#closing.signal.throwIfAborted();
      await this.#claim();
    }
  }

  /** Keeps other processes from delivering. Resolves with the position after the last delivered event. */
  async #claim(): Promise<string> {
    const { journal, target, holder, times } = this.#options;
    const nowMs = performance.now();
    if (nowMs - this.#claimedMs > times.claimMs / 3) {
      this.#claimedMs = Number.NEGATIVE_INFINITY;
      const position = await journal.claimCursor({ name: target.id, holder, forMs: times.claimMs });
      if (position === undefined) {
        throw new ClaimLost();
      }
      this.#position = position;
      this.#claimedMs = nowMs;
    }
    return this.#position;
  }

  async #move(position: string): Promise<void> {
    const { journal, target, holder } = this.#options;
    if (!(await journal.moveCursor({ name: target.id, holder, position }))) {
      this.#claimedMs = Number.NEGATIVE_INFINITY;
      throw new ClaimLost();
    }
    this.#position = position;
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#closing.signal, ref: false }).catch(() => {});
  }
}

const goneStatus = 410;

/** The statuses of receivers that reject this event for its content, size or format. */
const refusalStatuses: ReadonlySet<number> = new Set([400, 413, 422]);

/** After so many, the event is given up, so that no flow can stop the others with an event that the receiver does not accept. */
const maxRefusals = 3;
