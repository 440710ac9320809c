export type JournalEntry = {
  /** Increasing for each runtime, but not without gaps. */
  readonly seq: number;
  readonly timeMs: number;
  /** The name of the flow runtime; empty if there can be only one. */
  readonly runtime: string;
  readonly kind: string;
  /** The severity, 1 being the most severe; undefined for events that have none. */
  readonly level: number | undefined;
  /** Empty, like the following ones, if the event is about no node. */
  readonly flowId: string;
  readonly nodeId: string;
  readonly nodeType: string;
  readonly nodeName: string;
  readonly data: Uint8Array;
};

export type JournalQuery = {
  readonly limit: number;
  readonly order: "newest" | "oldest";
  /** The position at which the previous page ended. */
  readonly after?: JournalCursor | undefined;
  /** Only entries with a greater sequence number. */
  readonly afterSeq?: number | undefined;
  /** Only entries of these kinds. */
  readonly kinds: readonly string[];
  /** Only entries that have this level or a more severe one, or none. */
  readonly maxLevel?: number | undefined;
  readonly flowId?: string | undefined;
  /** The id, type or name of a node. */
  readonly node?: string | undefined;
  readonly fromMs?: number | undefined;
  /** Exclusive. */
  readonly untilMs?: number | undefined;
};

/**
 * Entries are in the order of their sequence numbers, and with the same number in the order of their runtimes' names.
 */
export type JournalCursor = { readonly seq: number; readonly runtime: string };

export type JournalPage = {
  readonly entries: readonly JournalEntry[];
  /** Undefined on the last page. */
  readonly next: JournalCursor | undefined;
};

/**
 * Reads the entries in the order in which they were recorded, which may differ from the order of their sequence
 * numbers.
 */
export type JournalReading = {
  /** The position at which the previous reading ended. */
  readonly after: string;
  readonly limit: number;
  readonly kinds: readonly string[];
  /** As in a query. */
  readonly maxLevel?: number | undefined;
};

type JournalRead = {
  readonly entries: readonly (JournalEntry & {
    /** From which a reading continues after this entry. Opaque. */
    readonly position: string;
  })[];
  /** From which the next reading continues. */
  readonly position: string;
};

/** A time-limited claim to deliver entries to a receiver. */
export type CursorClaim = { readonly name: string; readonly holder: string; readonly forMs: number };

export type JournalOptions = {
  /** Called with the reason when a journal was damaged, or was written by another version, and was replaced by an empty one. */
  readonly onReplaced: (reason: string) => void;
};

/**
 * Keeps recorded events. It is not as durable as the rest of the store: the last seconds may be missing after a failure of the machine,
 * but not after the end of the process. Nothing else in the store waits for it, and no failure of it is one of the store.
 */
export interface JournalStore extends AsyncDisposable {
  /** Rejects if the entries can't be written; none of them is kept then. */
  append(entries: readonly JournalEntry[]): Promise<void>;
  list(query: JournalQuery): Promise<JournalPage>;
  /** The last sequence number of a runtime; 0 if it has no entries. */
  lastSeq(runtime: string): Promise<number>;
  /** No entry is left out that is recorded later, by any process. */
  read(reading: JournalReading): Promise<JournalRead>;
  /**
   * Claims a cursor for its holder, who keeps it for this time unless it is claimed again. Resolves with its position; undefined: another
   * holder has it. A new cursor is at the newest entry.
   */
  claimCursor(claim: CursorClaim): Promise<string | undefined>;
  /** Moves a cursor. Resolves with false, and does nothing, if another holder has claimed it. */
  moveCursor(move: Pick<CursorClaim, "name" | "holder"> & { readonly position: string }): Promise<boolean>;
  /** Removes the oldest entries beyond these limits. Resolves with their number. */
  prune(limits: { readonly maxBytes: number; readonly fromMs: number }): Promise<number>;
}
