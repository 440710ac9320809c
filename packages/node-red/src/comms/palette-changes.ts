import { createListeners } from "@flowgate/base/listeners";
import type { EventHub } from "../../../../src/live/hub.ts";
import type { Palette, SetInfo } from "../palette/palette.ts";
import type { CommsMessage } from "./messages.ts";

/** Tells editors which nodes were added, removed, enabled and disabled when the modules of this service change. */
export class PaletteChanges implements Disposable {
  readonly #palette: Pick<Palette, "list">;
  readonly #listeners = createListeners<CommsMessage>();
  readonly #subscription: Disposable;
  /** Undefined until there is an editor. */
  #known: Promise<readonly SetInfo[]> | undefined;

  constructor(hub: Pick<EventHub, "onEvent">, palette: Pick<Palette, "list">) {
    this.#palette = palette;
    this.#subscription = hub.onEvent(({ kind }) => {
      if (kind.case === "module" && kind.value.state === "done" && this.#known !== undefined) {
        this.#known = this.#compare(this.#known);
      }
    });
  }

  subscribe(listener: (message: CommsMessage) => void): Disposable {
    this.#known ??= this.#palette.list("node").catch(() => []);
    return this.#listeners.add(listener);
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  async #compare(known: Promise<readonly SetInfo[]>): Promise<readonly SetInfo[]> {
    const before = await known;
    const after = await this.#palette.list("node").catch(() => before);
    describeChanges(before, after).forEach((message) => this.#listeners.notify(message));
    return after;
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
