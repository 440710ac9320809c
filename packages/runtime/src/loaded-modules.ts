import type { ModulesLoaded } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";

type ModulesOptions = Pick<CompleteOptions, "modulesDir" | "disabled" | "folderId">;

/** Which modules a process has loaded, and given up. Must be created before the process reads the folder of modules. */
export class LoadedModules {
  readonly #options: ModulesOptions;
  /** Identifies the folder at its start. */
  readonly #folder: string | undefined;
  /** The modules and sets that were disabled at the last load; undefined if they could not be unloaded. */
  #disabled: string | undefined;

  constructor(options: ModulesOptions) {
    this.#options = options;
    this.#folder = options.folderId();
    this.#disabled = this.#readDisabled();
  }

  /** True if others were only added, enabled or disabled since the start. Those that were replaced or removed need a new process. */
  get canChange(): boolean {
    return this.#options.modulesDir !== undefined && this.#options.folderId() === this.#folder;
  }

  /** True if some were replaced or removed since the start, or enabled or disabled since the process has loaded them. */
  get isOutdated(): boolean {
    return this.#options.folderId() !== this.#folder || this.#readDisabled() !== this.#disabled;
  }

  /** The process loads what has changed. */
  begin(): void {
    this.#disabled = this.#readDisabled();
  }

  /** The process has ended that, or could not give up what was disabled. */
  end({ isRefused }: Pick<ModulesLoaded, "isRefused">): void {
    if (isRefused === true) {
      this.#disabled = undefined;
    }
  }

  #readDisabled(): string {
    return JSON.stringify(this.#options.disabled());
  }
}
