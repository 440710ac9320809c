import { FairPool, type FairPoolOptions, requestEnded, type Share } from "./fair-pool.ts";

/**
 * The bytes of memory for each byte of a body while it is decoded and validated: 7 for flows of function nodes, over each
 * protocol, and more until V8 collects them (docs/decisions.md). The heap of the thread that decodes them limits the rest.
 */
const decodingFactor = 8;

/** A document is kept for the store and for the runtime. */
const documentFactor = 2;

/** The memory that request bodies may take. Bodies of up to 64 KiB take none of it. */
export class MemoryBudget {
  // Two pools, so that bodies which arrive slowly do not delay complete ones, and so that requests never wait for each
  // other's received bytes.
  readonly #receiving: FairPool;
  readonly #decoding: FairPool;

  constructor(options: FairPoolOptions) {
    const quarter = options.capacityBytes / 4;
    this.#receiving = new FairPool({ ...options, capacityBytes: quarter });
    this.#decoding = new FairPool({ ...options, capacityBytes: 3 * quarter });
  }

  /** `source` identifies the client. Holds nothing yet. */
  open(source: string): MemoryReservation {
    return new MemoryReservation(source, this.#receiving, this.#decoding);
  }
}

/**
 * The share of the budget held by one request. A call throws, or its promise rejects, when the request has ended or
 * waited too long.
 */
export class MemoryReservation {
  readonly #receiving: FairPool;
  readonly #decoding: FairPool;
  readonly #received: Share;
  readonly #working: Share;
  #users = 1;

  constructor(source: string, receiving: FairPool, decoding: FairPool) {
    this.#receiving = receiving;
    this.#decoding = decoding;
    this.#received = { source, bytes: 0 };
    this.#working = { source, bytes: 0 };
  }

  /**
   * Must be called before each part of a body is received: `bytes` is the length of the body up to the end of that part. Also
   * before a response is created that its client may read slowly.
   */
  receive(bytes: number): Promise<void> | undefined {
    this.#assertOpen();
    return this.#receiving.resize(this.#received, bytes);
  }

  /**
   * Must be called before a body is decompressed, with its maximum length, or decoded. Replaces the bytes held to
   * decode it.
   */
  decode(bytes: number): Promise<void> | undefined {
    this.#assertOpen();
    const wanted = bytes * decodingFactor;
    if (wanted > this.#working.bytes) {
      // Requests that wait while they hold a part would wait for each other.
      void this.#decoding.resize(this.#working, 0);
    }
    // From then on, the memory to decode the body includes the body.
    const receivedAll = (): void => void this.#receiving.resize(this.#received, 0);
    const wait = this.#decoding.resize(this.#working, wanted);
    if (wait === undefined) {
      receivedAll();
    }
    return wait?.then(receivedAll);
  }

  /** The message is decoded: from now on only a document of this size is held. */
  decoded(bytes: number): void {
    void this.#decoding.resize(this.#working, Math.min(this.#working.bytes, bytes * documentFactor));
  }

  /** Keeps the held bytes after `close`, until the returned function is called. To be called once. */
  retain(): () => void {
    this.#users += 1;
    return () => this.close();
  }

  close(): void {
    this.#users -= 1;
    if (this.#users === 0) {
      this.#receiving.close(this.#received);
      this.#decoding.close(this.#working);
    }
  }

  #assertOpen(): void {
    if (this.#users === 0) {
      throw requestEnded();
    }
  }
}
