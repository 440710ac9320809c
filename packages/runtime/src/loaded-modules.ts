import type { ModulesLoaded } from "./messages.ts";
import type { CompleteOptions } from "./options.ts";

type ModulesOptions = Pick<CompleteOptions, "modulesDir" | "disabled" | "folderId">;

/** Which modules a process has loaded, and given up. Must be created before the process reads the folder of modules. */
export class LoadedModules {
  readonly #options: ModulesOptions;
  /** Identifies the folder at its start. */
  readonly #folder: string | undefined;
  /** What was disabled when it has loaded them last; undefined if it could not give that up. */
  #disabled: string | undefined;

  constructor(options: ModulesOptions) {
    this.#options = options;
    this.#folder = options.folderId();
    this.#disabled = this.#readDisabled();
  }

  /** Whether others were only added, enabled or disabled since the start. Those that were replaced or removed need a new process. */
  get canChange(): boolean {
    return this.#options.modulesDir !== undefined && this.#options.folderId() === this.#folder;
  }

  /** Whether some were replaced or removed since the start, or enabled or disabled since the process has loaded them. */
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
