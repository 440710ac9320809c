import { setTimeout as delay } from "node:timers/promises";
import { isFields } from "@flowgate/base/fields";
import { contextLimits, type ContextChange, type ContextStore } from "./storage.ts";
import type { ContextPart } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";
import { PartReader } from "./part-reader.ts";

/** All values together, which are in memory when the flows start. */
const maxValues = 100_000;
const maxBytes = 64 * 1024 * 1024;

/** Of the changes in one message, which has parts. */
const maxMessageBytes = 2 * contextLimits.valueBytes;

/** Of the changes in one transaction. */
const batchLimits = { count: 500, bytes: 4 * 1024 * 1024 };
const retryMs = 1_000;

type Options = Pick<CompleteOptions, "log"> & {
  readonly database: ContextStore;
  /** That of the lease with which the flows run; undefined: there is none. */
  readonly token: number | undefined;
};

/** How long the end of the flows waits until their context is written. */
const flushMs = 5_000;

/**
 * The context that flows keep in the store of the service, which their process can't reach. It is read when a process starts, and what it
 * changes is written one batch after another, the newest value of each key.
 */
export class ContextValues {
  readonly #options: Options;
  /** The sizes of all values by their places. */
  readonly #sizes = new Map<string, number>();
  #bytes = 0;
  readonly #pending = new Map<string, ContextChange>();
  #writing: Promise<void> | undefined;
  /** True if another replica runs the flows. */
  #isLost = false;
  #isFull = false;
  readonly #parts = new PartReader(maxMessageBytes);

  constructor(options: Options) {
    this.#options = options;
  }

  /** Resolves with all values as JSON, when those of the process before are written. Retries until `signal` is aborted. */
  async read(signal: AbortSignal): Promise<Buffer> {
    for (;;) {
      signal.throwIfAborted();
      await this.#writing;
      try {
        const values = await this.#options.database.read();
        this.#sizes.clear();
        this.#bytes = 0;
        values.forEach((value) => this.#count(placeOf(value), value.json));
        return Buffer.from(JSON.stringify(values.map(({ store, scope, key, json }) => [store, scope, key, json])));
      } catch (error) {
        this.#warn(`the context of the flows can't be read, and they start when it can: ${messageOf(error)}`);
        await delay(retryMs, undefined, { signal });
      }
    }
  }

  /** Takes a part of a message with changes. Flows can forge it. */
  handlePart(part: ContextPart): void {
    const text = this.#parts.add(part);
    for (const change of text === undefined ? [] : parseChanges(text)) {
      this.#add(change);
    }
    if (this.#pending.size > 0 && !this.#isLost) {
      this.#writing ??= this.#write();
    }
  }

  /** Resolves when all changes are written, at the latest after `withinMs`. */
  async flush(withinMs = flushMs): Promise<void> {
    if (this.#writing !== undefined) {
      await Promise.race([this.#writing, delay(withinMs, undefined, { ref: false })]);
    }
  }

  #add(change: ContextChange): void {
    const place = placeOf(change);
    const isPending = this.#pending.has(place);
    if (change.json === undefined && !isPending && !this.#sizes.has(place)) {
      return;
    }
    // Values that are added and removed again at once are not counted any more, but their removal has to be written.
    if ((isPending || this.#pending.size < maxValues) && this.#count(place, change.json)) {
      this.#pending.set(place, change);
    } else if (!this.#isFull) {
      this.#isFull = true;
      this.#warn(
        `the context in the store is full (${maxValues} values, ${maxBytes / 1024 / 1024} MiB): new values are not kept`,
      );
    }
  }

  /** Returns false, and counts nothing, if it would be too much. */
  #count(place: string, json: string | undefined): boolean {
    const size = json === undefined ? 0 : place.length + json.length;
    const before = this.#sizes.get(place) ?? 0;
    if (size > before && (this.#bytes + size - before > maxBytes || (before === 0 && this.#sizes.size >= maxValues))) {
      return false;
    }
    this.#bytes += size - before;
    if (size === 0) {
      this.#sizes.delete(place);
    } else {
      this.#sizes.set(place, size);
    }
    return true;
  }

  async #write(): Promise<void> {
    let hasFailed = false;
    while (this.#pending.size > 0 && !this.#isLost) {
      const batch = this.#takeBatch();
      try {
        const { database, token } = this.#options;
        this.#isLost = !(await database.write(
          batch.map(([, change]) => change),
          token,
        ));
        hasFailed = false;
      } catch (error) {
        // Unless they have changed again since.
        for (const [place, change] of batch.filter(([place]) => !this.#pending.has(place))) {
          this.#pending.set(place, change);
        }
        if (!hasFailed) {
          this.#warn(`the context of the flows can't be written, which is retried: ${messageOf(error)}`);
        }
        hasFailed = true;
        await delay(retryMs, undefined, { ref: false });
      }
    }
    this.#writing = undefined;
  }

  #takeBatch(): [place: string, change: ContextChange][] {
    const batch: [string, ContextChange][] = [];
    let bytes = 0;
    for (const [place, change] of this.#pending) {
      bytes += place.length + (change.json?.length ?? 0);
      if (batch.length === batchLimits.count || (bytes > batchLimits.bytes && batch.length > 0)) {
        break;
      }
      batch.push([place, change]);
      this.#pending.delete(place);
    }
    return batch;
  }

  #warn(message: string): void {
    this.#options.log({ level: "warn", message }, "runtime");
  }
}

function placeOf({ store, scope, key }: Omit<ContextChange, "json">): string {
  return JSON.stringify([store, scope, key]);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function parseChanges(text: string): ContextChange[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return [];
  }
  return (Array.isArray(parsed) ? parsed : []).flatMap((change: unknown) => {
    const [store, scope, key, json] = isFields(change) && Array.isArray(change) ? (change as unknown[]) : [];
    const isText = typeof store === "string" && /^\w{1,100}$/.test(store);
    const isValue = json === null || (typeof json === "string" && Buffer.byteLength(json) <= contextLimits.valueBytes);
    if (!isText || typeof scope !== "string" || typeof key !== "string" || !isValue || json === undefined) {
      return [];
    }
    const value = { store, scope, key, json: json ?? undefined };
    return Buffer.byteLength(placeOf(value)) <= contextLimits.nameBytes && isPortable(value.json) ? [value] : [];
  });
}

/** Databases can't contain these in texts. JSON escapes them. */
function isPortable(json: string | undefined): boolean {
  return json === undefined || (json.isWellFormed() && !json.includes("\0"));
}
