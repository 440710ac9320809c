import { setImmediate } from "node:timers/promises";
import type { Logger } from "pino";
import type { AuditRecord, AuditStore } from "../store/audit-store.ts";
import { clientKeyOf } from "./caller.ts";

/** Records events that change nothing in the store, soon and without making the caller wait. */
export interface AuditRecorder {
  /**
   * For events that clients can cause any number of times: events of the same kind, user, client, subject and detail
   * that follow within ten minutes are counted, and written as one entry at the end of that time.
   */
  record(record: AuditRecord): void;
  /** For all others: writes each event. */
  write(record: AuditRecord): void;
}

export type AuditRecorderOptions = {
  readonly store: Pick<AuditStore, "append">;
  readonly log: Logger;
  readonly windowMs?: number;
  /** The number of groups of events that are counted separately; see `groupsOf`. */
  readonly maxGroups?: number;
};

type Window = { latest: AuditRecord; repeats: number; readonly timer: NodeJS.Timeout };

/** Disposing writes the counted events. */
export function openAuditRecorder({
  store,
  log,
  windowMs = 10 * 60_000,
  maxGroups = 256,
}: AuditRecorderOptions): AuditRecorder & AsyncDisposable {
  const windows = new Map<string, Window>();
  let queue: AuditRecord[] = [];
  let writing: Promise<void> | undefined;

  async function writeQueue(): Promise<void> {
    // After the current response: its time must not show whether the event is written or only counted.
    await setImmediate();
    while (queue.length > 0) {
      const records = queue;
      queue = [];
      try {
        await store.append(records);
      } catch (error) {
        // The event has happened, and can't be undone or refused. Only the log remains.
        log.error({ err: error, records }, "audit entries could not be written");
      }
    }
    writing = undefined;
  }

  function write(record: AuditRecord): void {
    queue.push(record);
    writing ??= writeQueue();
  }

  function openWindow(key: string, latest: AuditRecord): void {
    windows.set(key, { latest, repeats: 0, timer: setTimeout(() => closeWindow(key), windowMs).unref() });
  }

  function closeWindow(key: string): void {
    const { latest, repeats } = windows.get(key) as Window;
    windows.delete(key);
    if (repeats > 0) {
      write({ ...latest, count: repeats });
      openWindow(key, latest);
    }
  }

  return {
    record(record) {
      const groups = groupsOf(record);
      const at = groups.findIndex(({ key }, level) => windows.has(key) || windows.size < maxGroups * (level + 1));
      const { key, event } = groups.at(at) as Group;
      const window = windows.get(key);
      if (window === undefined) {
        write(event);
        openWindow(key, event);
      } else {
        window.latest = event;
        window.repeats += 1;
      }
    },

    write,

    async [Symbol.asyncDispose]() {
      for (const { latest, repeats, timer } of windows.values()) {
        clearTimeout(timer);
        if (repeats > 0) {
          write({ ...latest, count: repeats });
        }
      }
      windows.clear();
      await writing;
    },
  };
}

type Group = { readonly key: string; readonly event: AuditRecord };

/**
 * The groups that an event can be counted in. When there are too many groups, events are counted by kind and user, and then by
 * kind alone, so that a flood from many addresses writes a bounded number of entries.
 */
function groupsOf(event: AuditRecord): readonly [Group, Group, Group] {
  const { kind, origin, subject, detail } = event;
  const detailOfMany = "many clients: they are counted together";
  const unknown = { address: undefined, protocol: undefined, requestId: undefined };
  return [
    { key: JSON.stringify([kind, origin.by, clientKeyOf(origin.address ?? ""), subject, detail]), event },
    {
      key: JSON.stringify([kind, origin.by]),
      event: { kind, origin: { by: origin.by, ...unknown }, detail: detailOfMany },
    },
    { key: kind, event: { kind, origin: { by: undefined, ...unknown }, detail: detailOfMany } },
  ];
}
