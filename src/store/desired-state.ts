import type { AuditRecord } from "./audit-store.ts";

export type DesiredState = {
  readonly isStarted: boolean;
  /** The user who started or stopped them last; undefined: nobody has, or the request was not authenticated. */
  readonly by: string | undefined;
  /** When; undefined: they were never stopped. */
  readonly atMs: number | undefined;
};

/** The state of a new store. */
export const initialState: DesiredState = { isStarted: true, by: undefined, atMs: undefined };

/** Stores whether the flows are to run: they are started and stopped by operators, on all replicas. */
export interface DesiredStateStore {
  /**
   * Returns the newest known state from memory. What another process has written is known when the store has read it, within
   * seconds.
   */
  current(): DesiredState;
  /**
   * Writes the state, durably, and the audit entry in the same transaction. Changes nothing if it is that already, and writes no
   * entry. Resolves with the state when `current` returns it and the listeners were called.
   */
  set(isStarted: boolean, entry: AuditRecord): Promise<DesiredState>;
  /** Calls the listener after each change of `current`. Disposing ends the subscription. The listener must not throw. */
  onChange(listener: () => void): Disposable;
}
