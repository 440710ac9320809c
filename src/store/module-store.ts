/** A module that the flows of a revision need, exactly as it was installed. */
export type RevisionModule = {
  readonly name: string;
  readonly version: string;
  /** The hash of its tarball, `sha512-…` (Subresource Integrity); undefined if it is not known. */
  readonly integrity: string | undefined;
  /** The node types that it defines. */
  readonly types: readonly string[];
};

/** An uploaded package. No registry has it, hence the store keeps it for undo and for other replicas. */
export type StoredTarball = { readonly integrity: string; readonly content: Uint8Array };

/**
 * Stores which modules the flows of revisions need. Revisions with the same modules share them. They are written by the commit of a
 * revision, and may change when modules are installed, updated or removed while it is the active one.
 */
export interface ModuleStore {
  /** Resolves with undefined if there is no such revision, or its modules are not known, since an older version has committed it. */
  find(rev: string): Promise<readonly RevisionModule[] | undefined>;
  /**
   * Replaces the modules of a revision, durably, if they are `before`, as `find` has returned them. Resolves with false if they are others, since
   * another replica has recorded its own. Does nothing if there is no such revision.
   */
  record(
    rev: string,
    modules: readonly RevisionModule[],
    before: readonly RevisionModule[] | undefined,
  ): Promise<boolean>;
  /** Keeps a tarball, at least for a day, and as long as a revision has its hash. */
  putTarball(tarball: StoredTarball): Promise<void>;
  findTarball(integrity: string): Promise<Uint8Array | undefined>;
  /** The hashes of these that are stored. */
  listTarballs(integrities: readonly string[]): Promise<readonly string[]>;
  /**
   * Calls the listener when other modules were recorded for the active revision, at least by another process, without a new revision. Disposing
   * ends the subscription. The listener must not throw.
   */
  onChange(listener: () => void): Disposable;
}
