export const settingLimits = { count: 1_000, totalBytes: 4 * 1024 * 1024 } as const;

export type SettingChange = { readonly name: string; readonly json: string | undefined };

/** Stores what modules keep as settings, for the replica that runs the flows. Values are encrypted at rest. */
export interface SettingStore {
  /** As they were read last. Changes of other processes are read within a second, if there can be any. */
  current(): ReadonlyMap<string, string>;
  /** The JSON of the values by name. */
  read(): Promise<ReadonlyMap<string, string>>;
  /**
   * Writes the changes durably, all or none. `token` belongs to the lease with which the flows run, if there is one.
   * Resolves with `fenced`, and changes nothing, if the lease has another holder by now, and with `full` if
   * `settingLimits` would be exceeded.
   */
  write(changes: readonly SettingChange[], token: number | undefined): Promise<"written" | "fenced" | "full">;
}
