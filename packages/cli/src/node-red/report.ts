/**
 * How a part of a user folder is imported. `changed`: it is imported in another form, which may have to be completed; `not_needed`:
 * Flowgate does the same without it, or it is about something that Flowgate does not have.
 */
export type ImportOutcome = "taken_over" | "changed" | "not_needed" | "not_possible";

export type ReportEntry = {
  /** A setting, or what else it is. */
  readonly name: string;
  /** A file in the user folder, with a line if it has many. */
  readonly file: string;
  readonly outcome: ImportOutcome;
  /** Where it is now, or why it is not. */
  readonly detail: string;
};

/** Values of the configuration by their paths, each with the entry of the report that it comes from. */
type ConfigurationValue = { readonly path: readonly string[]; readonly value: unknown; readonly entry: ReportEntry };

/** Collects what becomes of a user folder, and the configuration with which the service does the same. */
export class ImportReport {
  #entries: ReportEntry[] = [];
  #values: ConfigurationValue[] = [];

  /** `value`, at `path`, is added to the configuration. */
  add(entry: ReportEntry, path?: readonly string[], value?: unknown): void {
    this.#entries.push(entry);
    if (path !== undefined) {
      this.#values.push({ path, value, entry });
    }
  }

  /** Adds another value of the last entry. */
  set(path: readonly string[], value: unknown): void {
    const entry = this.#entries.at(-1);
    if (entry !== undefined) {
      this.#values.push({ path, value, entry });
    }
  }

  get entries(): readonly ReportEntry[] {
    return this.#entries;
  }

  get configuration(): Readonly<Record<string, unknown>> {
    const root: Record<string, unknown> = {};
    for (const { path, value } of this.#values) {
      let parent = root;
      for (const key of path.slice(0, -1)) {
        parent = (parent[key] ??= {}) as Record<string, unknown>;
      }
      parent[path.at(-1) ?? ""] = value;
    }
    return root;
  }

  /** Removes the values at or below a path, and those above it, because the service would not accept them. */
  reject(path: readonly (string | number)[], message: string): boolean {
    const isAffected = (value: ConfigurationValue): boolean =>
      value.path.every((key, at) => at >= path.length || key === String(path[at]));
    const affected = this.#values.filter(isAffected);
    this.#values = this.#values.filter((value) => !isAffected(value));
    this.#entries = this.#entries.map((entry) =>
      affected.some((value) => value.entry === entry) ? { ...entry, outcome: "not_possible", detail: message } : entry,
    );
    return affected.length > 0;
  }
}
