import type { Logger } from "pino";
import { createListeners } from "@flowgate/base/listeners";
import { isModuleFailure, type Modules } from "@flowgate/runtime/modules";
import type { FlowStore } from "../store/flow-store.ts";
import type { ModuleStore } from "../store/module-store.ts";

type FollowerOptions = {
  readonly modules: Pick<Modules, "compare" | "replace">;
  readonly flows: Pick<FlowStore, "active">;
  readonly store: Pick<ModuleStore, "find" | "findTarball" | "onChange">;
  readonly log: Logger;
};

/** Why the flows of a revision lack modules here. `seq` is its sequence number. */
export type ModuleProblem = { readonly seq: number; readonly message: string };

const retryMs = 60_000;

/**
 * Installs the modules of the active revision where they are missing or have other versions: on other replicas than the one that has
 * committed it, after a restore of a backup, and if this process was killed during a deployment. Disposing ends that; the modules end an
 * installation in progress.
 */
export class ModuleFollower implements Disposable {
  readonly #options: FollowerOptions;
  readonly #changes = createListeners<void>();
  readonly #installations = createListeners<void>();
  #following: Disposable | undefined;
  #running: Promise<boolean> | undefined;
  #next: Promise<boolean> | undefined;
  #isInstalling = false;
  #problem: ModuleProblem | undefined;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  /** Begins. Resolves when it is known whether something has to be installed. Without a call, nothing is. */
  async start(): Promise<void> {
    this.#following = this.#options.store.onChange(() => this.follow());
    const known = Promise.withResolvers<void>();
    using _ = this.#changes.add(known.resolve);
    await Promise.race([this.#prepareAndNotify(), known.promise]);
  }

  /** True if modules are being installed without which flows must not be started. */
  isPreparing(): boolean {
    return this.#isInstalling;
  }

  problem(): ModuleProblem | undefined {
    return this.#problem;
  }

  /** Calls the listener after each change of `isPreparing` and `problem`. Disposing ends the subscription. */
  onChange(listener: () => void): Disposable {
    return this.#changes.add(listener);
  }

  /**
   * Installs the modules of the active revision. Resolves, after success or failure, with true if something was
   * installed. Never rejects.
   */
  prepare(): Promise<boolean> {
    if (this.#running === undefined) {
      this.#running = this.#install().finally(() => (this.#running = undefined));
      return this.#running;
    }
    this.#next ??= this.#running.then((hasInstalled) => {
      this.#next = undefined;
      return this.prepare().then((again) => hasInstalled || again);
    });
    return this.#next;
  }

  /** Installs the modules of the active revision, and notifies listeners. */
  follow(): void {
    void this.#prepareAndNotify();
  }

  /** Calls the listener when `start` or `follow` has installed something. Disposing ends the subscription. */
  onInstalled(listener: () => void): Disposable {
    return this.#installations.add(listener);
  }

  async #prepareAndNotify(): Promise<void> {
    if (await this.prepare()) {
      this.#installations.notify();
    }
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#following?.[Symbol.dispose]();
    clearTimeout(this.#retry);
  }

  async #install(): Promise<boolean> {
    const { modules, flows, store, log } = this.#options;
    clearTimeout(this.#retry);
    if (this.#isClosed) {
      return false;
    }
    const { rev, seq } = flows.active();
    try {
      const wanted = (await store.find(rev)) ?? [];
      const compared = wanted.length === 0 ? [] : await modules.compare(wanted);
      const changed = compared.filter(({ state }) => state !== "present");
      if (changed.length > 0) {
        this.#set(true, this.#problem);
        const names = changed.map(({ wanted: { name, version } }) => `${name}@${version}`);
        log.info({ rev, modules: names }, "installing the modules of the active revision");
        await modules.replace(wanted, {
          findTarball: (integrity) => store.findTarball(integrity),
          commit: async () => {},
        });
      }
      this.#set(false, undefined);
      return changed.length > 0;
    } catch (err) {
      if (!this.#isClosed) {
        log.error({ err, rev }, "the modules of the active revision could not be installed");
        this.#retry = setTimeout(() => this.follow(), retryMs).unref();
      }
      this.#set(false, isModuleFailure(err) ? { seq, message: err.message } : undefined);
      return false;
    }
  }

  #set(isInstalling: boolean, problem: ModuleProblem | undefined): void {
    const before = this.#problem;
    const isChange =
      isInstalling !== this.#isInstalling || problem?.message !== before?.message || problem?.seq !== before?.seq;
    this.#isInstalling = isInstalling;
    this.#problem = problem;
    if (isChange) {
      this.#changes.notify();
    }
  }
}
