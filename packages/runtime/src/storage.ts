import type { CredentialSets } from "@flowgate/flows";
import type { Revision } from "./revision.ts";

// What nodes keep outlives their process if the owner of the runtime implements these. Each `token` is that of the fence with which
// the flows run; undefined: there is none.

/** A value of context. Flows choose all of these texts. */
export type ContextValue = {
  /** The store of context. */
  readonly store: string;
  readonly scope: string;
  readonly key: string;
  readonly json: string;
};

/** A value to write; without `json`, it is removed. */
export type ContextChange = Omit<ContextValue, "json"> & { readonly json: string | undefined };

/** Keeps the context of the module `database`. */
export interface ContextStore {
  /** All values, in the order in which they were written. */
  read(): Promise<readonly ContextValue[]>;
  /** Writes the changes, all or none. Resolves with false, and changes nothing, if the token is no longer valid. */
  write(changes: readonly ContextChange[], token: number | undefined): Promise<boolean>;
}

/** The largest values of context that are kept: of their JSON, and of the JSON of their names together, in UTF-8. */
export const contextLimits = { valueBytes: 256 * 1024, nameBytes: 2_000 } as const;

/** A setting to write; without `json`, it is removed. */
export type SettingChange = { readonly name: string; readonly json: string | undefined };

/** Keeps the settings of modules. */
export interface SettingStore {
  /** The JSON of the values by name, as they were read last. */
  current(): ReadonlyMap<string, string>;
  read(): Promise<ReadonlyMap<string, string>>;
  /**
   * Writes the changes, all or none. Resolves with `fenced`, and changes nothing, if the token is no longer valid, and with `full` if
   * there would be too many settings.
   */
  write(changes: readonly SettingChange[], token: number | undefined): Promise<"written" | "fenced" | "full">;
}

/** The largest setting, and how many are written at once. */
export const settingLimits = { count: 1_000, nameBytes: 500, valueBytes: 256 * 1024 } as const;

/** Credentials that nodes have written. */
export type CredentialWrite = {
  /** By node id. They replace the node's own; an empty set removes them. */
  readonly sets: CredentialSets;
  /** The number of the revision that the nodes belong to; undefined: that of the active one. */
  readonly sinceSeq: number | undefined;
  readonly token: number | undefined;
};

/**
 * `written`: they are the node's credentials from now on. `superseded`: a revision after `sinceSeq` has determined others. `full`: there
 * are too many.
 */
export type CredentialWriteResult = "written" | "superseded" | "full";

/** Keeps credentials and settings that nodes write. */
export interface NodeStorage {
  /** The newest revision, with what its nodes have written. */
  active(): Revision;
  /** Resolves when `active` has what other processes have written. */
  catchUp(): Promise<void>;
  /** Credentials written for nodes that are not deployed yet. */
  unclaimedCredentials(): CredentialSets;
  /** Resolves with the results by node id; undefined if the token is no longer valid. */
  writeCredentials(write: CredentialWrite): Promise<ReadonlyMap<string, CredentialWriteResult> | undefined>;
  readonly settings: SettingStore;
  /** Called with credentials of nodes before they are stored. */
  readonly onCredentials: (sets: CredentialSets) => void;
}
