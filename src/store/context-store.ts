/** A value that flows keep between messages. Flows choose all of these texts. */
export type ContextValue = {
  readonly store: string;
  readonly scope: string;
  readonly key: string;
  readonly json: string;
};

/** A value to write; without `json`, it is removed. */
export type ContextChange = Omit<ContextValue, "json"> & { readonly json: string | undefined };

export interface ContextStore {
  /** All values, in the order in which they were written. */
  read(): Promise<readonly ContextValue[]>;
  /**
   * Writes the changes durably, all or none. `token` belongs to the lease with which the flows run, if there is one.
   * Resolves with false, and changes nothing, if the lease has another holder by now.
   */
  write(changes: readonly ContextChange[], token: number | undefined): Promise<boolean>;
}
