import { createListeners } from "@flowgate/base/listeners";
import type { AuditRecord } from "../audit-store.ts";
import { type DesiredState, initialState } from "../desired-state.ts";
import { appendAudit, lockAudit } from "./audit-log.ts";
import { insert, type Query, toPortable } from "./query.ts";

/** The table `desired_state`, of which only the newest row is kept. */
type DesiredStateRow = { seq: number; started: number; changed_by: string | null; changed_at_ms: number };

/** A desired state, and the number of its row; 0: there is none. */
export type NumberedState = { readonly seq: number; readonly state: DesiredState };

export async function findDesiredState(query: Query): Promise<NumberedState> {
  const [row] = await query<DesiredStateRow>(
    "SELECT seq, started, changed_by, changed_at_ms FROM flowgate.desired_state ORDER BY seq DESC LIMIT 1",
  );
  return row === undefined ? { seq: 0, state: initialState } : { seq: row.seq, state: toState(row) };
}

export type DesiredStateCall = { readonly isStarted: boolean; readonly entry: AuditRecord };

/** Resolves with the state, whether or not it was another one before. */
export async function setDesiredState(query: Query, { isStarted, entry }: DesiredStateCall): Promise<NumberedState> {
  // Also excludes others that change it.
  const log = await lockAudit(query);
  const before = await findDesiredState(query);
  if (before.state.isStarted === isStarted) {
    return before;
  }
  const row: DesiredStateRow = {
    seq: before.seq + 1,
    started: isStarted ? 1 : 0,
    changed_by: toPortable(entry.origin.by) ?? null,
    changed_at_ms: log.nowMs,
  };
  await query("DELETE FROM flowgate.desired_state");
  await insert(query, "desired_state", row);
  await appendAudit(log, [entry]);
  return { seq: row.seq, state: toState(row) };
}

function toState({ started, changed_by, changed_at_ms }: DesiredStateRow): DesiredState {
  return { isStarted: started === 1, by: changed_by ?? undefined, atMs: changed_at_ms };
}

/** The newest known desired state, in memory. */
export class KnownState {
  #known: NumberedState;
  readonly #listeners = createListeners<void>();

  constructor(known: NumberedState) {
    this.#known = known;
  }

  get seq(): number {
    return this.#known.seq;
  }

  get state(): DesiredState {
    return this.#known.state;
  }

  /** A state can have a lower number than the one before if a database was replaced by an older one. */
  replace(next: NumberedState): void {
    if (next.seq !== this.#known.seq) {
      this.#known = next;
      this.#listeners.notify();
    }
  }

  onChange(listener: () => void): Disposable {
    return this.#listeners.add(listener);
  }
}
