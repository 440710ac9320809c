import type { Event } from "@flowgate/client";
import type { Palette, SetInfo } from "../palette/palette.ts";
import type { CommsMessage } from "./messages.ts";

/** Finds the nodes that were added, removed, enabled and disabled when the modules of this service change. */
export class PaletteChanges {
  readonly #palette: Pick<Palette, "list">;
  /** The messages for an event, which are the same for all sessions. */
  readonly #messages = new WeakMap<Event, Promise<readonly CommsMessage[]>>();
  #known: Promise<readonly SetInfo[]> = Promise.resolve([]);
  #sessions = 0;

  constructor(palette: Pick<Palette, "list">) {
    this.#palette = palette;
  }

  /** Must be called when a session begins, and disposed of when it ends. */
  begin(): Disposable {
    if (this.#sessions === 0) {
      this.#known = this.#palette.list("node").catch(() => []);
    }
    this.#sessions += 1;
    return {
      [Symbol.dispose]: () => {
        this.#sessions -= 1;
      },
    };
  }

  /** The messages for an event about modules: what has changed since the one before, or the begin of the first session. */
  messagesOf(event: Event): Promise<readonly CommsMessage[]> {
    return this.#messages.getOrInsertComputed(event, () => {
      const known = this.#known;
      this.#known = known.then((before) => this.#palette.list("node").catch(() => before));
      return Promise.all([known, this.#known]).then(([before, after]) => describeChanges(before, after));
    });
  }
}

/** The notifications of Node-RED for the difference between two lists. */
export function describeChanges(before: readonly SetInfo[], after: readonly SetInfo[]): CommsMessage[] {
  const old = new Map(before.map((set) => [set.id, set]));
  const present = new Set(after.map(({ id }) => id));
  const isReplaced = (set: SetInfo): boolean => {
    const previous = old.get(set.id);
    return previous !== undefined && previous.version !== set.version;
  };
  const removed = before.filter(({ id }) => !present.has(id));
  const added = after.filter(({ id, enabled }) => enabled && !old.has(id));
  const changed = after.filter((set) => !isReplaced(set) && (old.get(set.id)?.enabled ?? set.enabled) !== set.enabled);
  const upgraded = new Map(after.filter(isReplaced).map(({ module, version }) => [module, version]));
  return [
    ...(removed.length > 0 ? [{ topic: "notification/node/removed", data: removed }] : []),
    ...(added.length > 0 ? [{ topic: "notification/node/added", data: added }] : []),
    ...changed.map((set) => ({ topic: `notification/node/${set.enabled ? "enabled" : "disabled"}`, data: set })),
    ...Array.from(upgraded, ([module, version]) => ({
      topic: "notification/node/upgraded",
      data: { module, version },
    })),
  ];
}
