/** A part of a pool, held for one request. */
export type Share = { readonly source: string; bytes: number };

/** An amount of memory that requests share. Bytes are counted, not allocated. */
export interface FairPool {
  /**
   * Lets the share hold this many bytes, at most three quarters of the capacity. Returns undefined if they are free; otherwise a promise that
   * rejects with the error of `createError` when they are not free in time. Must not be called while a promise is pending.
   */
  resize(share: Share, bytes: number): Promise<void> | undefined;
  /** Gives back what the share holds, and ends its wait: a pending promise rejects with an AbortError. */
  close(share: Share): void;
}

export type FairPoolOptions = {
  readonly capacityBytes: number;
  /** How long a share waits for its bytes. */
  readonly waitMs: number;
  /** Creates the error of a wait that took too long. */
  readonly createError: () => Error;
};

type Waiter = { readonly share: Share; readonly bytes: number; readonly settle: (error?: Error) => void };

type Source = { readonly name: string; usedBytes: number; readonly waiters: Waiter[] };

/**
 * A quarter of the capacity is a reserve for sources that hold nothing yet, each up to its whole size: no source can take
 * everything, and a small share of a new source is granted at once. Other shares wait: sources take turns, and the smallest share
 * of a source comes first. While the next share does not fit, other sources can only use the reserve; otherwise they could delay
 * it indefinitely.
 */
export function createFairPool({ capacityBytes, waitMs, createError }: FairPoolOptions): FairPool {
  const reserveBytes = capacityBytes / 4;
  const limitBytes = capacityBytes - reserveBytes;
  /** Those that hold or wait for bytes. */
  const sources = new Map<string, Source>();
  /** Those that wait, in their turn. */
  const waiting = new Set<Source>();
  let usedBytes = 0;

  const find = (name: string): Source => {
    let source = sources.get(name);
    if (source === undefined) {
      source = { name, usedBytes: 0, waiters: [] };
      sources.set(name, source);
    }
    return source;
  };

  const mayUseReserve = (source: Source, share: Share, bytes: number): boolean =>
    source.usedBytes === share.bytes && bytes <= reserveBytes;

  const fits = (source: Source, share: Share, bytes: number): boolean =>
    usedBytes - share.bytes + bytes <= (mayUseReserve(source, share, bytes) ? capacityBytes : limitBytes);

  const hold = (source: Source, share: Share, bytes: number): void => {
    const more = bytes - share.bytes;
    share.bytes = bytes;
    source.usedBytes += more;
    usedBytes += more;
  };

  const leave = (source: Source, waiter: Waiter): void => {
    source.waiters.splice(source.waiters.indexOf(waiter), 1);
    if (source.waiters.length === 0) {
      waiting.delete(source);
    }
  };

  const forget = (source: Source): void => {
    if (source.usedBytes === 0 && source.waiters.length === 0) {
      sources.delete(source.name);
    }
  };

  /** Grants what fits, until nothing else does. */
  const grant = (): void => {
    let isBlocked = false;
    for (const source of waiting) {
      const [waiter] = source.waiters;
      if (waiter === undefined) {
        continue;
      }
      const { share, bytes } = waiter;
      if (!fits(source, share, bytes) || (isBlocked && !mayUseReserve(source, share, bytes))) {
        isBlocked = true;
        continue;
      }
      hold(source, share, bytes);
      waiting.delete(source);
      leave(source, waiter);
      if (source.waiters.length > 0) {
        // Its turn comes again after all others, later in this loop.
        waiting.add(source);
      }
      waiter.settle();
    }
  };

  const wait = (source: Source, share: Share, bytes: number): Promise<void> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        leave(source, waiter);
        forget(source);
        reject(createError());
        grant();
      }, waitMs);
      const waiter: Waiter = {
        share,
        bytes,
        settle(error) {
          clearTimeout(timer);
          if (error === undefined) {
            resolve();
          } else {
            reject(error);
          }
        },
      };
      const larger = source.waiters.findIndex((each) => each.bytes > bytes);
      source.waiters.splice(larger === -1 ? source.waiters.length : larger, 0, waiter);
      waiting.add(source);
    });

  return {
    resize(share, wanted) {
      const bytes = Math.min(wanted, limitBytes);
      const source = find(share.source);
      if (bytes <= share.bytes) {
        hold(source, share, bytes);
        grant();
        return undefined;
      }
      if (fits(source, share, bytes) && (waiting.size === 0 || mayUseReserve(source, share, bytes))) {
        hold(source, share, bytes);
        return undefined;
      }
      return wait(source, share, bytes);
    },
    close(share) {
      const source = find(share.source);
      const waiter = source.waiters.find((each) => each.share === share);
      if (waiter !== undefined) {
        leave(source, waiter);
        waiter.settle(requestEnded());
      }
      hold(source, share, 0);
      forget(source);
      grant();
    },
  };
}

export function requestEnded(): Error {
  return new DOMException("the request has ended", "AbortError");
}
