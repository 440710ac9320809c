/** A part of a pool, held for one request. */
export type Share = { readonly source: string; bytes: number };

export type FairPoolOptions = {
  readonly capacityBytes: number;
  readonly waitMs: number;
  readonly createError: () => Error;
};

type Waiter = {
  readonly share: Share;
  readonly bytes: number;
  /** The number of smaller shares that came later and were served earlier. */
  overtaken: number;
  readonly settle: (error?: Error) => void;
};

type Source = { readonly name: string; usedBytes: number; readonly waiters: Waiter[] };

/**
 * An amount of memory that requests share. Bytes are counted, not allocated.
 *
 * A quarter of the capacity is a reserve for sources that hold nothing yet, each up to its whole size: no source can take
 * everything, and a small share of a new source is granted at once. Other shares wait: sources take turns, and the smallest share
 * of a source comes first, but each is overtaken by a few only. While the next share does not fit, other sources can only use the reserve; otherwise they could delay
 * it indefinitely.
 */
export class FairPool {
  /** A larger share would wait indefinitely while smaller ones keep arriving. */
  static readonly #maxOvertaken = 4;
  readonly #options: FairPoolOptions;
  readonly #reserveBytes: number;
  readonly #limitBytes: number;
  /** The sources that hold or wait for bytes. */
  readonly #sources = new Map<string, Source>();
  /** The waiting sources, in the order of their turn. */
  readonly #waiting = new Set<Source>();
  #usedBytes = 0;

  constructor(options: FairPoolOptions) {
    this.#options = options;
    this.#reserveBytes = options.capacityBytes / 4;
    this.#limitBytes = options.capacityBytes - this.#reserveBytes;
  }

  /**
   * Lets the share hold this many bytes, at most three quarters of the capacity. Returns undefined if they are free; otherwise a promise that
   * rejects with the error of `createError` when they are not free in time. Must not be called while a promise is pending.
   */
  resize(share: Share, wanted: number): Promise<void> | undefined {
    const bytes = Math.min(wanted, this.#limitBytes);
    const source = this.#find(share.source);
    if (bytes <= share.bytes) {
      this.#hold(source, share, bytes);
      this.#grant();
      return undefined;
    }
    const mayStart = this.#waiting.size === 0 || this.#mayUseReserve(source, share, bytes);
    if (mayStart && this.#fits(source, share, bytes)) {
      this.#hold(source, share, bytes);
      return undefined;
    }
    return this.#wait(source, share, bytes);
  }

  /** Releases the share's bytes, and ends its wait: a pending promise rejects with an AbortError. */
  close(share: Share): void {
    const source = this.#find(share.source);
    const waiter = source.waiters.find((each) => each.share === share);
    if (waiter !== undefined) {
      this.#leave(source, waiter);
      waiter.settle(requestEnded());
    }
    this.#hold(source, share, 0);
    this.#forget(source);
    this.#grant();
  }

  #find(name: string): Source {
    return this.#sources.getOrInsertComputed(name, () => ({ name, usedBytes: 0, waiters: [] }));
  }

  #mayUseReserve(source: Source, share: Share, bytes: number): boolean {
    return source.usedBytes === share.bytes && bytes <= this.#reserveBytes;
  }

  #fits(source: Source, share: Share, bytes: number): boolean {
    const maxBytes = this.#mayUseReserve(source, share, bytes) ? this.#options.capacityBytes : this.#limitBytes;
    return this.#usedBytes - share.bytes + bytes <= maxBytes;
  }

  #hold(source: Source, share: Share, bytes: number): void {
    const more = bytes - share.bytes;
    share.bytes = bytes;
    source.usedBytes += more;
    this.#usedBytes += more;
  }

  #leave(source: Source, waiter: Waiter): void {
    source.waiters.splice(source.waiters.indexOf(waiter), 1);
    if (source.waiters.length === 0) {
      this.#waiting.delete(source);
    }
  }

  #forget(source: Source): void {
    if (source.usedBytes === 0 && source.waiters.length === 0) {
      this.#sources.delete(source.name);
    }
  }

  #grant(): void {
    let isBlocked = false;
    for (const source of this.#waiting) {
      const [waiter] = source.waiters;
      if (waiter === undefined) {
        continue;
      }
      const { share, bytes } = waiter;
      if (!this.#fits(source, share, bytes) || (isBlocked && !this.#mayUseReserve(source, share, bytes))) {
        isBlocked = true;
        continue;
      }
      this.#hold(source, share, bytes);
      this.#waiting.delete(source);
      this.#leave(source, waiter);
      if (source.waiters.length > 0) {
        // Its turn comes again after all others, later in this loop.
        this.#waiting.add(source);
      }
      waiter.settle();
    }
  }

  /** Inserts the waiter before all larger ones that may be overtaken. */
  #enqueue(waiters: Waiter[], waiter: Waiter): void {
    const mayOvertake = ({ bytes, overtaken }: Waiter): boolean =>
      bytes > waiter.bytes && overtaken < FairPool.#maxOvertaken;
    const at = waiters.findLastIndex((each) => !mayOvertake(each)) + 1;
    for (const each of waiters.slice(at)) {
      each.overtaken += 1;
    }
    waiters.splice(at, 0, waiter);
  }

  #wait(source: Source, share: Share, bytes: number): Promise<void> {
    const { createError, waitMs } = this.#options;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#leave(source, waiter);
        this.#forget(source);
        reject(createError());
        this.#grant();
      }, waitMs);
      const waiter: Waiter = {
        share,
        bytes,
        overtaken: 0,
        settle(error) {
          clearTimeout(timer);
          if (error === undefined) {
            resolve();
          } else {
            reject(error);
          }
        },
      };
      this.#enqueue(source.waiters, waiter);
      this.#waiting.add(source);
    });
  }
}

export function requestEnded(): Error {
  return new DOMException("the request has ended", "AbortError");
}
