import type { Listeners } from "@flowgate/base/listeners";
import type { AuditRecord, AuditStore } from "../audit-store.ts";
import type { CredentialKeys } from "../credential-keys.ts";
import type { ContextStore } from "../context-store.ts";
import type { DocumentStore } from "../document-store.ts";
import type { FlowStore } from "../flow-store.ts";
import type { ModuleStore } from "../module-store.ts";
import type { ProposalStore } from "../proposal-store.ts";
import type { SettingStore } from "../setting-store.ts";
import type { TokenStore } from "../token-store.ts";
import type { DesiredStateStore } from "../desired-state.ts";
import { appendAudit, listAudit, lockAudit, pruneAudit } from "./audit-log.ts";
import { readContext, writeContext } from "./context-values.ts";
import { type KnownState, setDesiredState } from "./desired-state.ts";
import { findDocument, listDocumentFolders, listDocuments, putDocument } from "./documents.ts";
import { insertKeyState, reportKnownKeys, writeSealed } from "./key-state.ts";
import { toWriteCall, writeCredentials } from "./node-credentials.ts";
import { type KnownSettings, toSettingsCall, writeSettings } from "./node-settings.ts";
import { findModules, findTarball, insertTarball, listTarballs, recordModules } from "./modules.ts";
import { toInsertProposalCall, toProposalEntry } from "./proposal-row.ts";
import { endProposal, findProposal, findProposalEntry, insertProposal, listProposals } from "./proposals.ts";
import { type Query, removeInBatches } from "./query.ts";
import { toEntry, toStateColumns } from "./revision-row.ts";
import {
  type ActiveRevision,
  commitRevision,
  findCredentials,
  findEntry,
  findRepeated,
  findRevision,
  insertRoot,
  listRevisions,
  pruneBatch,
  pruneRevisions,
  updateRevision,
} from "./revisions.ts";
import {
  findToken,
  findUpdateSessionCall,
  getToken,
  insertToken,
  listTokens,
  recordTokenUses,
  removeExpiredTokens,
  removeTokens,
  toInsertTokenCall,
  updateSession,
} from "./tokens.ts";

/** The operations that write. Each runs in a transaction of its own. */
export const writes = {
  insertRoot,
  commit: commitRevision,
  update: updateRevision,
  prune: pruneRevisions,
  writeCredentials,
  writeSettings,
  insertProposal,
  endProposal,
  insertToken,
  removeTokens,
  removeExpiredTokens,
  recordTokenUses,
  updateSession,
  recordModules,
  insertTarball,
  setDesiredState,
  putDocument,
  writeContext,
  pruneAudit,
  insertKeyState,
  reportKnownKeys,
  appendAudit: async (query: Query, records: readonly AuditRecord[]) => appendAudit(await lockAudit(query), records),
};

/**
 * Runs one of these operations in a transaction, on the thread that writes if there is one. `keyId` is the key that the argument is
 * encrypted with: the transaction begins with `assertCurrentKey`.
 */
export type Write<
  Operations extends Record<string, (query: Query, argument: never) => Promise<unknown>> = typeof writes,
> = <Name extends keyof Operations>(
  name: Name,
  argument: Parameters<Operations[Name]>[1],
  keyId?: string,
) => ReturnType<Operations[Name]>;

/** The reads and writes of an adapter. */
export type Access = { readonly query: Query; readonly write: Write };

export function createAuditStore({ query, write }: Access, verify: AuditStore["verify"]): AuditStore {
  return {
    append: (records) => write("appendAudit", records),
    list: (page) => listAudit(query, page),
    prune: (maxAgeMs) => write("pruneAudit", maxAgeMs),
    verify,
  };
}

export function createDocumentStore({ query, write }: Access): DocumentStore {
  return {
    find: (name) => findDocument(query, name),
    listFolders: (folder) => listDocumentFolders(query, folder),
    list: (folder, after) => listDocuments(query, folder, after),
    put: (document, entry) => write("putDocument", { document, entry }),
  };
}

export function createContextStore({ query, write }: Access): ContextStore {
  return { read: () => readContext(query), write: (changes, token) => write("writeContext", { changes, token }) };
}

/** `keys` encrypt the values. */
export function createSettingStore({ write }: Access, known: KnownSettings, keys: CredentialKeys): SettingStore {
  return {
    current: () => known.settings,
    read: () => known.read(),
    async write(changes, token) {
      const result = await writeSealed(
        keys,
        (key) => toSettingsCall(changes, token, key),
        (call, keyId) => write("writeSettings", call, keyId),
      );
      await known.read();
      return result;
    },
  };
}

/** `keys` encrypt credentials. */
export function createProposalStore({ query, write }: Access, keys: CredentialKeys): ProposalStore {
  return {
    async create(draft, entry, limits) {
      const row = await writeSealed(
        keys,
        (key) => toInsertProposalCall(draft, entry, limits, key),
        (call, keyId) => write("insertProposal", call, keyId),
      );
      return toProposalEntry(row);
    },
    findEntry: (id) => findProposalEntry(query, id),
    find: (id) => findProposal(query, id, keys),
    list: (page) => listProposals(query, page),
    async close(id, closing, entry) {
      const row = await write("endProposal", { id, ...closing, entry });
      return row && toProposalEntry(row);
    },
  };
}

/** The modules of revisions, of which a single process changes those. */
export function createModuleStore({ query, write }: Access): ModuleStore {
  return {
    find: (rev) => findModules(query, rev),
    record: (rev, modules, before) => write("recordModules", { rev, modules, before }),
    putTarball: (tarball) => write("insertTarball", tarball),
    findTarball: (integrity) => findTarball(query, integrity),
    listTarballs: (integrities) => listTarballs(query, integrities),
    onChange: () => ({ [Symbol.dispose]() {} }),
  };
}

/** The desired state of a single process. */
export function createDesiredState({ write }: Access, known: KnownState): DesiredStateStore {
  return {
    current: () => known.state,
    async set(isStarted, entry) {
      known.replace(await write("setDesiredState", { isStarted, entry }));
      return known.state;
    },
    onChange: (listener) => known.onChange(listener),
  };
}

/** The token store of a single process. `revoked` gets the hash of each removed token, `keys` encrypt what sessions keep. */
export function createTokenStore(
  { query, write }: Access,
  revoked: Listeners<Uint8Array | undefined>,
  keys: CredentialKeys,
): TokenStore {
  return {
    insert: (token, entry, limits) =>
      writeSealed(
        keys,
        (key) => toInsertTokenCall(token, entry, limits, key),
        (call, keyId) => write("insertToken", call, keyId),
      ),
    find: (hash) => findToken(query, hash, keys),
    get: (id) => getToken(query, id, keys),
    list: (page) => listTokens(query, page, keys),
    async remove(selector, entry) {
      const hashes = await write("removeTokens", { selector, entry });
      hashes.forEach((hash) => revoked.notify(hash));
      return hashes.length;
    },
    removeExpired: (nowMs) => write("removeExpiredTokens", nowMs),
    async updateSession(change) {
      for (;;) {
        const isUpdated = await writeSealed(
          keys,
          (key) => findUpdateSessionCall(query, change, keys, key),
          async (call, keyId) => call && (await write("updateSession", call, keyId)),
        );
        // A session that was only encrypted again is compared again.
        if (isUpdated !== false) {
          return isUpdated ?? false;
        }
      }
    },
    recordUses: (uses) => write("recordTokenUses", uses),
    onRevoked: (listener) => revoked.add(listener),
    isCurrent: () => true,
  };
}

/** The methods of a flow store that don't depend on how many processes commit. `keys` decrypt credentials. */
export function createHistory(
  { query, write }: Access,
  active: ActiveRevision,
  keys: CredentialKeys,
): Omit<FlowStore, "commit" | "reload" | "catchUp" | "writeCredentials"> {
  return {
    active: () => active.get(),
    async find(rev) {
      if (rev === active.get().rev) {
        return active.get();
      }
      const revision = await findRevision(query, rev, keys);
      return revision && active.written.applyTo(revision);
    },
    async findCredentials(rev, types) {
      const found = await findCredentials(query, rev, keys);
      return found && (types ? active.written.replace(found.credentials, found.seq, types) : found.credentials);
    },
    unclaimedCredentials: () => active.written.unclaimed(),
    findEntry: (rev) => findEntry(query, rev),
    findRepeated: (by, idempotencyKey) => findRepeated(query, by, idempotencyKey),
    list: (page) => listRevisions(query, page),
    async update(rev, change, entry, maxPinned) {
      const row = await write("update", { rev, columns: toStateColumns(change), entry, maxPinned });
      return row && toEntry(row);
    },
    prune: (retention) => removeInBatches(pruneBatch, () => write("prune", retention)),
    onRevision: (listener) => active.onRevision(listener),
    onCredentials: (listener) => active.onCredentials(listener),
  };
}

type CredentialWriting = {
  readonly active: ActiveRevision;
  /** They encrypt credentials. */
  readonly keys: CredentialKeys;
  /** `keyId` is as for `Write`. */
  readonly write: (call: Parameters<typeof writeCredentials>[1], keyId: string) => ReturnType<typeof writeCredentials>;
  /** Resolves when the newest revision is the active one. */
  readonly catchUp: () => Promise<unknown>;
  /** Reads the node writes. */
  readonly refresh: () => Promise<void>;
};

/** The method of a flow store that stores node writes. */
export function createCredentialWriting({
  active,
  keys,
  write,
  catchUp,
  refresh,
}: CredentialWriting): FlowStore["writeCredentials"] {
  return async (writing) => {
    for (;;) {
      const reply = await writeSealed(keys, (key) => toWriteCall(writing, active.get(), key), write);
      switch (reply.kind) {
        case "done":
          await refresh();
          return new Map([...writing.sets.keys()].map((id, at) => [id, reply.results[at] ?? "full"]));
        case "fenced":
          return undefined;
        case "stale":
          await catchUp();
      }
    }
  };
}
