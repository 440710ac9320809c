import type { Logger } from "pino";
import { type FlowsDocument, needsModule } from "@flowgate/flows";
import {
  type InstalledModule,
  isModuleFailure,
  type Modules,
  type ComparedModule,
  type WantedModule,
} from "@flowgate/runtime/modules";
import type { Runtime } from "@flowgate/runtime";
import type { AuditRecord, AuditStore, Origin } from "../store/audit-store.ts";
import type { FlowStore } from "../store/flow-store.ts";
import type { ModuleStore, RevisionModule } from "../store/module-store.ts";
import type { Revision } from "../store/revision.ts";

type ModuleSetsOptions = {
  readonly modules: Pick<Modules, "list" | "compare" | "replace" | "readUpload">;
  readonly flows: Pick<FlowStore, "active">;
  readonly store: ModuleStore;
  readonly audit: Pick<AuditStore, "append">;
  readonly runtime: Pick<Runtime, "reloadModules">;
  /** Called if the modules of a committed revision could not take effect. */
  readonly onIneffective: () => void;
  readonly log: Logger;
};

/** The content of a new revision, with its declared modules if any. */
export type ModuleContent = {
  readonly flows: FlowsDocument;
  /** The modules that the request names. */
  readonly modules?: readonly WantedModule[] | undefined;
  /** The earlier revision that has this content. Its modules are installed again. */
  readonly restoredRev?: string | undefined;
};

/** The author of a revision. `assertMayInstall` throws if they may not install the modules that it names. */
export type Installer = { readonly origin: Origin; readonly assertMayInstall: (isRestored: boolean) => void };

/** Larger packages are not kept in the store: undo and other replicas can't install them. */
const maxTarballBytes = 32 * 1024 * 1024;

/** Installs the modules that revisions need before they become active, and records them. */
export class ModuleSets {
  readonly #options: ModuleSetsOptions;

  constructor(options: ModuleSetsOptions) {
    this.#options = options;
  }

  /**
   * Commits a revision with the modules that its flows need. What it names, or the restored revision had, is installed before. If that fails
   * nothing is committed, and if the commit fails the modules remain as they were. Throws as `Modules.replace` does.
   */
  async commit(
    content: ModuleContent,
    { origin, assertMayInstall }: Installer,
    commit: (modules: readonly RevisionModule[]) => Promise<Revision>,
  ): Promise<Revision> {
    const { modules, store, runtime, onIneffective, log } = this.#options;
    const restored = content.restoredRev === undefined ? undefined : await store.find(content.restoredRev);
    const wanted = restored ?? content.modules ?? [];
    const write = async (installed: readonly InstalledModule[]): Promise<Revision> => {
      const needed = restored ?? (await this.#findNeeded(content.flows, installed));
      await this.#keepTarballs(needed, installed);
      return commit(needed);
    };
    const compared = wanted.length === 0 ? [] : await modules.compare(wanted);
    const changed = compared.filter(({ state }) => state !== "present");
    if (changed.length === 0) {
      return write(await modules.list());
    }
    assertMayInstall(restored !== undefined);
    let revision: Revision | undefined;
    try {
      await modules.replace(wanted, {
        findTarball: (integrity) => store.findTarball(integrity),
        commit: async (installed) => (revision = await write(installed)),
      });
    } catch (err) {
      if (revision === undefined) {
        throw err;
      }
      log.error({ err, rev: revision.rev }, "the modules of a revision could not take effect, and are installed again");
      onIneffective();
    }
    await this.#audit(changed, origin);
    runtime.reloadModules();
    return revision as Revision;
  }

  /**
   * Commits a revision that restores another one as `commit` does, but without its modules if these can't be installed:
   * the earlier flows are better than failing ones.
   */
  async restoreIfPossible(
    content: ModuleContent,
    origin: Origin,
    commit: (modules: readonly RevisionModule[], problem: string | undefined) => Promise<Revision>,
  ): Promise<Revision> {
    const { modules, log } = this.#options;
    try {
      return await this.commit(content, { origin, assertMayInstall() {} }, (needed) => commit(needed, undefined));
    } catch (err) {
      if (!isModuleFailure(err)) {
        throw err;
      }
      log.error({ err }, "the modules of before could not be installed for an automatic undo");
      return commit(await this.#findNeeded(content.flows, await modules.list()), err.message);
    }
  }

  /** Records the modules of the active revision again after the installed modules changed. Never rejects. */
  async record(removed?: string): Promise<void> {
    const { modules, flows, store, log } = this.#options;
    const { rev, flows: document } = flows.active();
    try {
      const installed = await modules.list();
      let isRecorded = false;
      // Again if another replica has recorded its own meanwhile.
      while (!isRecorded) {
        const before = await store.find(rev);
        const needed = findNeeded(document, installed, before).filter(({ name }) => name !== removed);
        await this.#keepTarballs(needed, installed);
        isRecorded = await store.record(rev, needed, before);
      }
    } catch (err) {
      log.error({ err, rev }, "the modules of the active revision could not be recorded");
    }
  }

  async #findNeeded(flows: FlowsDocument, installed: readonly InstalledModule[]): Promise<RevisionModule[]> {
    const { flows: revisions, store } = this.#options;
    return findNeeded(flows, installed, await store.find(revisions.active().rev));
  }

  /** Stores the uploaded packages among them, so that undo and other replicas can install them. */
  async #keepTarballs(needed: readonly RevisionModule[], installed: readonly InstalledModule[]): Promise<void> {
    const { modules, store, log } = this.#options;
    const hashes = new Set(needed.flatMap(({ integrity }) => integrity ?? []));
    const uploaded = installed.filter(
      ({ upload, integrity }) => upload !== undefined && integrity !== undefined && hashes.has(integrity),
    );
    const stored = new Set(await store.listTarballs(uploaded.flatMap(({ integrity }) => integrity ?? [])));
    for (const module of uploaded.filter(({ integrity = "" }) => !stored.has(integrity))) {
      const content = await modules.readUpload(module);
      if (content !== undefined && content.length <= maxTarballBytes) {
        await store.putTarball({ integrity: module.integrity ?? "", content });
      } else if (content !== undefined) {
        const { name, version } = module;
        log.warn({ module: `${name}@${version}` }, "the package is too large for the store: upload it to each replica");
      }
    }
  }

  async #audit(changed: readonly ComparedModule[], origin: Origin): Promise<void> {
    const { modules, audit, log } = this.#options;
    const installed = new Map((await modules.list()).map((module) => [module.name, module]));
    const records = changed.map(({ wanted: { name }, installed: before }): AuditRecord => {
      const { version, integrity } = installed.get(name) ?? {};
      return moduleInstalled({ name, version, integrity }, before?.version, origin);
    });
    // The revision is committed.
    await audit
      .append(records)
      .catch((err: unknown) => log.error({ err, records }, "audit entries could not be written"));
  }
}

/**
 * Returns the modules that flows need: the installed ones, and others that another replica has according to `before`.
 */
function findNeeded(
  { needs }: FlowsDocument,
  installed: readonly InstalledModule[],
  before: readonly RevisionModule[] = [],
): RevisionModule[] {
  if (installed.length === 0 && before.length === 0) {
    return [];
  }
  const names = new Set(installed.map(({ name }) => name));
  return [
    ...installed.flatMap(({ name, version, integrity, types }) =>
      version !== undefined && needsModule(needs, { name, types }) ? [{ name, version, integrity, types }] : [],
    ),
    ...before.filter((module) => !names.has(module.name) && needsModule(needs, module)),
  ];
}

/** The audit entry of an installation. `previousVersion` was installed before. */
export function moduleInstalled(
  { name, version, integrity }: Pick<InstalledModule, "name" | "version" | "integrity">,
  previousVersion: string | undefined,
  origin: Origin,
): AuditRecord {
  const replaced =
    previousVersion === undefined || previousVersion === version ? undefined : `instead of ${previousVersion}`;
  const detail = [replaced, integrity].filter((part) => part !== undefined).join(", ");
  return { kind: "module_installed", origin, subject: `${name}@${version}`, detail: detail || undefined };
}
