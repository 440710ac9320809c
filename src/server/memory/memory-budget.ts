import { createFairPool, type FairPool, requestEnded, type Share } from "./fair-pool.ts";

/** The memory that request bodies may take. Bodies of up to 64 KiB take none of it. */
export interface MemoryBudget {
  /** `source` identifies the client. Holds nothing yet. */
  open(source: string): MemoryReservation;
}

/** What one request holds of the budget. A call throws, or its promise rejects, when the request has ended or waited too long. */
export interface MemoryReservation {
  /**
   * Must be called before each part of a body is received: `bytes` is the length of the body up to the end of that part. Also
   * before a response is created that its client may read slowly.
   */
  receive(bytes: number): Promise<void> | undefined;
  /** Must be called before a body is decompressed, with its maximum length, or decoded. Replaces what was held to decode it. */
  decode(bytes: number): Promise<void> | undefined;
  /** The message is decoded: from now on only a document of this size is held. */
  decoded(bytes: number): void;
  /** Keeps what is held after `close`, until the returned function is called. To be called once. */
  retain(): () => void;
  close(): void;
}

/**
 * The bytes of memory for each byte of a body while it is decoded and validated: 7 for flows of function nodes, over each
 * protocol, and more until V8 collects them (docs/decisions.md). The heap of the thread that decodes them limits the rest.
 */
const decodingFactor = 8;

/** A document is kept for the store and for the runtime. */
const documentFactor = 2;

export function createMemoryBudget({
  bytes,
  waitMs,
  createError,
}: {
  readonly bytes: number;
  readonly waitMs: number;
  /** Creates the error of a request that waited too long. */
  readonly createError: () => Error;
}): MemoryBudget {
  // Two pools, so that bodies which arrive slowly do not delay those that are complete, and so that requests which hold what they
  // have received never wait for each other.
  const receiving = createFairPool({ capacityBytes: bytes / 4, waitMs, createError });
  const decoding = createFairPool({ capacityBytes: (bytes / 4) * 3, waitMs, createError });
  return { open: (source) => openReservation(source, receiving, decoding) };
}

function openReservation(source: string, receiving: FairPool, decoding: FairPool): MemoryReservation {
  const received: Share = { source, bytes: 0 };
  const working: Share = { source, bytes: 0 };
  let users = 1;

  const release = (): void => {
    users -= 1;
    if (users === 0) {
      receiving.close(received);
      decoding.close(working);
    }
  };

  const assertOpen = (): void => {
    if (users === 0) {
      throw requestEnded();
    }
  };

  return {
    receive(bytes) {
      assertOpen();
      return receiving.resize(received, bytes);
    },
    decode(bytes) {
      assertOpen();
      const wanted = bytes * decodingFactor;
      if (wanted > working.bytes) {
        // Requests that wait while they hold a part would wait for each other.
        void decoding.resize(working, 0);
      }
      // From then on, the memory to decode the body includes the body.
      const receivedAll = (): void => void receiving.resize(received, 0);
      const wait = decoding.resize(working, wanted);
      if (wait === undefined) {
        receivedAll();
      }
      return wait?.then(receivedAll);
    },
    decoded(bytes) {
      void decoding.resize(working, Math.min(working.bytes, bytes * documentFactor));
    },
    retain() {
      users += 1;
      return release;
    },
    close: release,
  };
}
