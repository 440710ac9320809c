import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { createClient, type Transport } from "@connectrpc/connect";
import { type Event, EventKind, type LogLevel, LogsService } from "@flowgate/client";
import { followEvents } from "../../api/follow.ts";
import { LogBuffer, maxEntries } from "./log-buffer.ts";

export type LogQuery = {
  readonly kinds: readonly EventKind[];
  readonly level: LogLevel;
  readonly tab: string;
  readonly node: string;
  /** Only events at this time or later. */
  readonly sinceMs?: number | undefined;
  /** Only events before this time, and none that are yet to come. */
  readonly untilMs?: number | undefined;
};

export type LogState = {
  readonly shown: readonly Event[];
  readonly held: number;
  readonly connection: "connecting" | "live" | "lost" | "off";
  readonly isLoading: boolean;
  /** `full`: there may be, but no room for them. */
  readonly earlier: "some" | "none" | "full";
  readonly error: unknown;
};

type LogFeedOptions = {
  readonly transport: Transport;
  readonly query: LogQuery;
  readonly canList: boolean;
  readonly canFollow: boolean;
  readonly onChange: (state: LogState) => void;
};

/** These are sent as they happen only. */
export const notRecorded: ReadonlySet<EventKind> = new Set([EventKind.DEBUG, EventKind.NODE_STATUS]);

const pageSize = 200;

/** Entries that arrive within this time are rendered together: flows can log a thousand entries per second. */
const flushMs = 250;

/** The journal may lack the last events: the stream begins before the journal's end. */
const overlapMs = 10_000;

/** Recorded and live entries as one list without gaps. */
export class LogFeed implements Disposable {
  readonly #options: LogFeedOptions;
  readonly #buffer = new LogBuffer();
  readonly #closed = new AbortController();
  readonly #recorded: readonly EventKind[];
  #arrived: Event[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #state: Omit<LogState, "shown" | "held">;
  #pageToken = "";

  constructor(options: LogFeedOptions) {
    const canFollow = options.canFollow && options.query.untilMs === undefined;
    this.#options = options;
    this.#recorded = options.canList ? options.query.kinds.filter((kind) => !notRecorded.has(kind)) : [];
    this.#state = {
      connection: canFollow ? "connecting" : "off",
      isLoading: false,
      earlier: this.#recorded.length > 0 ? "some" : "none",
      error: undefined,
    };
    if (canFollow) {
      void this.#follow();
    }
    void this.loadEarlier();
  }

  hold(isHolding: boolean): void {
    this.#buffer.hold(isHolding);
    this.#report({});
  }

  async loadEarlier(): Promise<void> {
    if (this.#state.isLoading || this.#state.earlier !== "some") {
      return;
    }
    this.#report({ isLoading: true, error: undefined });
    const {
      transport,
      query: { sinceMs, untilMs, ...query },
    } = this.#options;
    const oldest = this.#buffer.snapshot.shown.at(-1)?.time;
    // Others can have the same time.
    const endMs = oldest === undefined ? untilMs : timestampMs(oldest) + 1;
    try {
      const { logs, nextPageToken } = await createClient(LogsService, transport).listLogs(
        {
          ...query,
          kinds: [...this.#recorded],
          pageSize,
          pageToken: this.#pageToken,
          ...(sinceMs !== undefined && { since: timestampFromMs(sinceMs) }),
          ...(endMs !== undefined && { until: timestampFromMs(endMs) }),
        },
        { signal: this.#closed.signal },
      );
      const added = this.#buffer.addEarlier(logs);
      // The token belongs to the time up to which this page was read.
      this.#pageToken = added === 0 ? nextPageToken : "";
      const isFull = this.#buffer.snapshot.shown.length >= maxEntries;
      const earlier = nextPageToken === "" ? "none" : isFull ? "full" : "some";
      this.#report({ isLoading: false, earlier });
    } catch (error) {
      this.#report({ isLoading: false, error });
    }
  }

  [Symbol.dispose](): void {
    this.#closed.abort();
    clearTimeout(this.#timer);
  }

  async #follow(): Promise<void> {
    const {
      transport,
      query: { sinceMs = 0, untilMs: _untilMs, ...query },
    } = this.#options;
    let connections = 0;
    const onConnection = (isConnected: boolean): void => {
      const connection = isConnected ? "live" : "lost";
      if (connection !== this.#state.connection) {
        connections += isConnected ? 1 : 0;
        this.#report({ connection });
      }
    };
    const onEvent = (event: Event): void => {
      const { kind, time } = event;
      // That earlier debug messages are not known is no news when the page is opened.
      const isNews = kind.case !== "dropped" || kind.value.reason !== "expired" || connections > 1;
      const isEarlier = time !== undefined && timestampMs(time) < sinceMs;
      if (isNews && !isEarlier && kind.case !== "bookmark" && kind.case !== "snapshotEnd") {
        this.#arrive(event);
      }
    };
    const request = { ...query, kinds: [...query.kinds], since: timestampFromMs(Date.now() - overlapMs) };
    try {
      await followEvents(transport, request, { onEvent, onConnection }, this.#closed.signal);
    } catch (error) {
      this.#report({ connection: "off", error });
    }
  }

  #arrive(event: Event): void {
    this.#arrived.push(event);
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#buffer.add(this.#arrived);
      this.#arrived = [];
      this.#report({});
    }, flushMs);
  }

  #report(change: Partial<LogState>): void {
    if (!this.#closed.signal.aborted) {
      this.#state = { ...this.#state, ...change };
      this.#options.onChange({ ...this.#state, ...this.#buffer.snapshot });
    }
  }
}
