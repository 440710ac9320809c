import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "@connectrpc/connect";
import type { Event } from "../../../gen/flowgate/v1/events_pb.ts";
import type { ReplicasService } from "../../../gen/flowgate/replicas/v1/replicas_pb.ts";
import { formatPosition, parsePosition } from "../position.ts";

export interface ReplicaConnection extends Disposable {
  readonly client: Client<typeof ReplicasService>;
  /** Returns the Authorization header of a call. */
  authorize(): string;
  /** True if the response to the call with this header is one of a replica. */
  isProof(authorization: string, proof: string): boolean;
}

export type LinkOptions = {
  readonly connect: () => Promise<ReplicaConnection>;
  /** The first stream starts after this position. */
  readonly afterSeq: number;
  /** True if debug messages are received at first. */
  readonly wantsDebug: boolean;
  /** A stream has started. Of the events after `sinceSeq`, those until `afterSeq` are missing. */
  readonly onStart: (afterSeq: number, sinceSeq: number) => void;
  readonly onState: (event: Event) => void;
  readonly onEvent: (seq: number, event: Event) => void;
  /** All events until this position were received. */
  readonly onPosition: (seq: number) => void;
  /** A stream has failed, or could not be opened. */
  readonly onLost: (error: unknown) => void;
};

const minRetryMs = 250;
const maxRetryMs = 5_000;

/** Receives the events of another replica, and goes on where it was interrupted. Disposing ends it. */
export class ReplicaLink implements Disposable {
  readonly #options: LinkOptions;
  readonly #closing = new AbortController();
  #lastSeq: number;
  #attempt = new AbortController();
  #connection: ReplicaConnection | undefined;
  /** The position to confirm next. */
  #wantedSeq = 0;
  #isConfirming = false;
  #wantsDebug: boolean;
  /** The stream is ended to open one with other events. */
  #isChanging = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#wantsDebug = options.wantsDebug;
    this.#lastSeq = options.afterSeq;
    void this.#run();
  }

  /** Asks for `onPosition` with this position or a later one. */
  confirm(seq: number): void {
    this.#wantedSeq = Math.max(this.#wantedSeq, seq);
    if (!this.#isConfirming) {
      void this.#confirm();
    }
  }

  /** Receives debug messages from now on, or not any more. */
  setDebug(wantsDebug: boolean): void {
    if (wantsDebug !== this.#wantsDebug) {
      this.#wantsDebug = wantsDebug;
      this.#isChanging = true;
      this.#attempt.abort();
    }
  }

  restart(): void {
    this.#attempt.abort();
  }

  [Symbol.dispose](): void {
    this.#closing.abort();
    this.#attempt.abort();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let retryMs = minRetryMs;
    while (!signal.aborted) {
      this.#attempt = new AbortController();
      const before = this.#lastSeq;
      try {
        await this.#receive(AbortSignal.any([signal, this.#attempt.signal]));
      } catch (error) {
        if (this.#isChanging) {
          this.#isChanging = false;
          continue;
        }
        if (!signal.aborted) {
          this.#options.onLost(error);
        }
      }
      retryMs = this.#lastSeq > before ? minRetryMs : Math.min(maxRetryMs, 2 * retryMs);
      await delay(retryMs * (0.5 + Math.random() / 2), undefined, { signal, ref: false }).catch(() => {});
    }
  }

  /** Rejects when the stream ends. */
  async #receive(signal: AbortSignal): Promise<void> {
    using connection = await this.#options.connect();
    this.#connection = connection;
    const authorization = connection.authorize();
    const sinceSeq = this.#lastSeq;
    let isVerified = false;
    try {
      const request = { after: formatPosition(sinceSeq), debug: this.#wantsDebug };
      for await (const { message } of connection.client.watchReplica(request, { headers: { authorization }, signal })) {
        switch (message.case) {
          case "start":
            if (!connection.isProof(authorization, message.value.proof)) {
              throw new Error("its secret differs from the secret of this replica");
            }
            isVerified = true;
            this.#received(parsePosition(message.value.after, "after"));
            this.#options.onStart(this.#lastSeq, sinceSeq);
            break;
          case "state":
            assertVerified(isVerified);
            this.#options.onState(message.value);
            break;
          case "event": {
            assertVerified(isVerified);
            const seq = parsePosition(message.value.id, "id");
            this.#received(seq);
            this.#options.onEvent(seq, Object.freeze(message.value));
            break;
          }
          case "position":
            assertVerified(isVerified);
            this.#received(parsePosition(message.value, "position"));
            this.#options.onPosition(this.#lastSeq);
            break;
          default:
            // One of a later version.
            break;
        }
      }
    } finally {
      this.#connection = undefined;
    }
    throw new Error("the stream has ended");
  }

  #received(seq: number): void {
    this.#lastSeq = Math.max(this.#lastSeq, seq);
  }

  async #confirm(): Promise<void> {
    this.#isConfirming = true;
    // What is published meanwhile needs no calls of its own.
    for (let doneSeq = 0; this.#wantedSeq > doneSeq;) {
      const connection = this.#connection;
      doneSeq = this.#wantedSeq;
      try {
        await connection?.client.confirmPosition(
          { position: formatPosition(doneSeq) },
          { headers: { authorization: connection.authorize() }, signal: this.#attempt.signal },
        );
      } catch {
        // The stream ends too, or the position is missed.
      }
    }
    this.#isConfirming = false;
  }
}

function assertVerified(isVerified: boolean): void {
  if (!isVerified) {
    throw new Error("its stream does not begin with a proof of the secret");
  }
}
