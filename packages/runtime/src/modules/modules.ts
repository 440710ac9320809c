import { existsSync, readdirSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { FlowgateError } from "@flowgate/flows/errors";
import { readDisabled } from "./disabled.ts";
import { isAllowed } from "./policy.ts";
import { type ModuleLists } from "@flowgate/base/module-rules";
import { listAdditions } from "./addition.ts";
import { modulesDirName, previousModulesDir } from "./folder.ts";
import { type InstalledModule, ModuleCatalog, readCoreModule, readInstalledModules } from "./catalog.ts";
import { type Staging, cacheName, changeInPlace, changeModules, removeLeftovers, stagingPrefix } from "./change.ts";
import { type AbsentReason, explainFullDisk, explainNpmError } from "./errors.ts";
import { openFolderRegistry } from "./folder-registry.ts";
import { type Installation, installPackages, uninstallPackages } from "./install.ts";
import { coreModule } from "./core-nodes.ts";
import { changeDisabled, writeDisabled } from "./disable.ts";
import { uploadsName } from "./lockfile.ts";
import { type Npm, NpmError, createNpm, measure } from "./npm.ts";
import { type ComparedModule, type WantedModule, assertHashes, assertModuleLimit, compareModules } from "./set.ts";
import { type FindTarball, type InstallRequest, type ModuleSource, findSource, parseRequest } from "./source.ts";

/** How modules are installed. The lists are as `externalModules.palette` of Node-RED has them, see policy.ts. */
type ModuleSettings = ModuleLists & {
  /** The URL of a registry, or the absolute path of a folder with tarballs. Undefined: that of `npmrc`, or npm's own. */
  readonly registry?: string | undefined;
  /** A configuration file of npm. */
  readonly npmrc?: string | undefined;
  /** The packages whose install scripts are run. */
  readonly scripts: readonly string[];
  readonly timeoutMs: number;
  readonly sizeMb: number;
};

type ModuleAction = "install" | "update" | "remove" | "enable" | "disable";

/** A step of a change of modules. `message` is the step that has begun, or the reason of the failure. */
export type ModuleProgress = {
  readonly action: ModuleAction;
  readonly name: string;
  readonly version: string;
  readonly state: "running" | "done" | "failed";
  readonly message: string;
};

export type ModulesOptions = Partial<ModuleSettings> & {
  /** The modules are in its folder `modules`. */
  readonly dataDir: string;
  /** Receives the output of npm if it fails. Defaults to ignoring it. */
  readonly log?: (message: string, fields: object) => void;
  /** Defaults to ignoring it. */
  readonly onProgress?: (progress: ModuleProgress) => void;
};

type CompleteOptions = ModuleSettings & Required<Pick<ModulesOptions, "dataDir" | "log" | "onProgress">>;

/** Every module may be installed, without its install scripts, within five minutes and 1 GiB. */
export const moduleDefaults = {
  allow: ["*"],
  deny: [],
  scripts: [],
  timeoutMs: 300_000,
  sizeMb: 1_024,
} as const satisfies Partial<ModuleSettings>;

type Installed = Installation & {
  /** The version that was installed before; undefined if none was. */
  readonly previousVersion: string | undefined;
};

type Subject = Pick<ModuleProgress, "action" | "name" | "version">;

/** The parts that a change of several modules needs. */
export type ReplaceOptions<T> = {
  /** Finds the tarball of an uploaded module, if no registry has it. */
  readonly findTarball: FindTarball;
  /**
   * Called when they are installed, before they take the place of the others, with all modules as they will be. If it rejects, the modules
   * remain as they were.
   */
  readonly commit: (installed: readonly InstalledModule[]) => Promise<T>;
};

const bytesPerMb = 1024 * 1024;

/** Opens the modules of a service. Removes in the background what a process has left that was killed while it changed them. */
export function openModules(options: ModulesOptions): Modules {
  return new Modules({ log() {}, onProgress() {}, ...moduleDefaults, ...options });
}

/** Lists and changes the modules of a service, one change at a time. Disposing ends a change in progress, which then has no effect. */
export class Modules implements AsyncDisposable {
  readonly #options: CompleteOptions;
  readonly #catalog: ModuleCatalog;
  readonly #closing = new AbortController();
  /** Files that another process has left are removed before the first change. */
  readonly #cleaned: Promise<void>;
  #current: { readonly subjects: readonly Subject[]; readonly done: Promise<unknown> } | undefined;

  constructor(options: CompleteOptions) {
    this.#options = options;
    this.#catalog = new ModuleCatalog(join(options.dataDir, modulesDirName));
    this.#cleaned = this.#cleanUp();
  }

  /** Sorted by name. */
  list(): Promise<readonly InstalledModule[]> {
    return this.#catalog.list();
  }

  /** Throws `not_found`. */
  async get(name: string): Promise<InstalledModule> {
    const module = (await this.list()).find((each) => each.name === name);
    if (module === undefined) {
      throw new FlowgateError("not_found", `name: no module ${JSON.stringify(name.slice(0, 214))} is installed`);
    }
    return module;
  }

  /** As `get`, and Node-RED's own nodes by the name "node-red". */
  find(name: string): Promise<InstalledModule> {
    return name === coreModule ? readCoreModule(join(this.#options.dataDir, modulesDirName)) : this.get(name);
  }

  /** The sets of nodes that are not to be loaded, as `module/set`. */
  disabledSets(): readonly string[] {
    return readDisabled(join(this.#options.dataDir, modulesDirName)).sets;
  }

  /**
   * Installs a module, or another version of it. Throws `invalid_argument`, `module_refused`, `not_found` if the registry does not have it, and as
   * `#change` does.
   */
  async install(request: InstallRequest): Promise<Installed> {
    const source = await parseRequest(request);
    const { name, version = "latest" } = source;
    const previous = (await this.list()).find((each) => each.name === name);
    if (!isAllowed(this.#options, name)) {
      throw this.#refused(name);
    }
    const subject: Subject = { action: previous === undefined ? "install" : "update", name, version };
    const installation = await this.#change(
      [subject],
      (onStep) => this.#install([source], { onStep, prefersCache: false }, async (result) => result),
      ({ installed }) => installed,
      "not_found",
    );
    return { ...installation, previousVersion: previous?.version };
  }

  /** Finds out which of these modules have to be installed. Throws `module_refused`, and `module_failed` if there would be too many. */
  async compare(wanted: readonly WantedModule[]): Promise<readonly ComparedModule[]> {
    const installed = await this.list();
    const compared = compareModules(installed, wanted);
    for (const { wanted: each, state } of compared) {
      if (state !== "present" && !isAllowed(this.#options, each.name)) {
        throw this.#refused(each.name);
      }
    }
    assertModuleLimit(installed, wanted);
    return compared;
  }

  /**
   * Installs those of these modules that are not present, all or none, with the hashes that they must have. Throws as `compare` and `#change`
   * do, and what `commit` throws. Waits while another change is in progress.
   */
  async replace<T>(wanted: readonly WantedModule[], options: ReplaceOptions<T>): Promise<T> {
    for (;;) {
      await this.#current?.done.catch(() => {});
      const changed = (await this.compare(wanted)).filter(({ state }) => state !== "present");
      if (changed.length === 0) {
        return options.commit(await this.list());
      }
      // Begins before another one can.
      if (this.#current === undefined) {
        return this.#replaceAll(changed, options);
      }
    }
  }

  async #replaceAll<T>(changed: readonly ComparedModule[], { findTarball, commit }: ReplaceOptions<T>): Promise<T> {
    const subjects = changed.map(({ wanted: { name, version }, state }): Subject => ({
      action: state === "missing" ? "install" : "update",
      name,
      version: version === "" ? "latest" : version,
    }));
    type Replaced = { readonly result: T; readonly installed: readonly InstalledModule[] };
    const work = async (onStep: (step: string) => void): Promise<Replaced> => {
      const sources = await Promise.all(changed.map((each) => findSource(each.wanted, findTarball)));
      const prefersCache = changed.every(({ wanted: { integrity } }) => integrity !== undefined);
      return this.#install(sources, { onStep, prefersCache }, async ({ installed }, tree) => {
        assertHashes(installed, changed);
        return { installed, result: await commit(await readInstalledModules(tree)) };
      });
    };
    return (await this.#change(subjects, work, ({ installed }) => installed)).result;
  }

  /** The tarball of an uploaded module; undefined if there is none. */
  async readUpload({ upload }: InstalledModule): Promise<Uint8Array | undefined> {
    const folder = join(this.#options.dataDir, modulesDirName, uploadsName);
    return upload === undefined ? undefined : readFile(join(folder, upload)).catch(() => undefined);
  }

  /** Throws `not_found`, and as `#change` does. */
  async remove(name: string): Promise<InstalledModule> {
    const module = await this.get(name);
    const subject: Subject = { action: "remove", name, version: module.version ?? "" };
    await this.#change([subject], () => this.#edit(undefined, (npm, { tree }) => uninstallPackages(tree, npm, [name])));
    return module;
  }

  /** Enables or disables a module, or one of its sets of nodes. Throws `not_found`, and as `#change` does. */
  async setEnabled(name: string, isEnabled: boolean, set?: string): Promise<InstalledModule> {
    const module = await this.find(name);
    const id = set === undefined ? name : `${name}/${set}`;
    const subject: Subject = { action: isEnabled ? "enable" : "disable", name: id, version: module.version ?? "" };
    await this.#change([subject], () =>
      changeInPlace(this.#options.dataDir, (tree) =>
        writeDisabled(tree, changeDisabled(readDisabled(tree), module, { isEnabled, set })),
      ),
    );
    return this.find(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#current?.done.catch(() => {});
  }

  /** Installs packages into a copy of the modules, which replaces them when `finish` resolves. */
  async #install<T>(
    sources: readonly ModuleSource[],
    { onStep, prefersCache }: { readonly onStep: (step: string) => void; readonly prefersCache: boolean },
    finish: (installation: Installation, tree: string) => Promise<T>,
  ): Promise<T> {
    const registry = await this.#openRegistry();
    await using _ = registry;
    return await this.#edit(registry?.url, async (npm, staging) => {
      const { tree } = staging;
      for (const { upload, tarball } of sources) {
        if (upload !== undefined && tarball !== undefined) {
          await mkdir(join(tree, uploadsName), { recursive: true });
          await writeFile(join(tree, uploadsName, upload), tarball);
        }
      }
      const { scripts } = this.#options;
      const check = (installed: readonly InstalledModule[]): void => this.#check(installed);
      return finish(await installPackages(staging, npm, sources, { scripts, prefersCache, onStep, check }), tree);
    });
  }

  /**
   * Throws `modules_busy` while another change is in progress, `module_failed` if npm fails or the module is malformed, and
   * `registry_unavailable`; then nothing has changed. `installedOf` returns the modules of a result, whose versions were not known before.
   */
  async #change<T>(
    subjects: readonly Subject[],
    work: (onStep: (step: string) => void) => Promise<T>,
    installedOf: (result: T) => readonly InstalledModule[] = () => [],
    absent: AbsentReason = "module_failed",
  ): Promise<T> {
    if (this.#closing.signal.aborted) {
      throw new FlowgateError("unavailable", "the service is stopping");
    }
    if (this.#current !== undefined) {
      throw new FlowgateError(
        "modules_busy",
        `another change of the modules is in progress (${describe(this.#current.subjects)}): wait until it has ended`,
      );
    }
    const report = (
      state: ModuleProgress["state"],
      message: string,
      installed: readonly InstalledModule[] = [],
    ): void => {
      for (const subject of subjects) {
        const { version = subject.version } = installed.find(({ name }) => name === subject.name) ?? {};
        this.#options.onProgress({ ...subject, version, state, message });
      }
    };
    const done = this.#cleaned.then(() => work((step) => report("running", step)));
    this.#current = { subjects, done };
    try {
      const result = await done;
      report("done", "", installedOf(result));
      return result;
    } catch (error) {
      const failure = this.#explain(error, subjects, absent);
      report("failed", failure instanceof FlowgateError ? failure.message : "internal error");
      throw failure;
    } finally {
      this.#current = undefined;
    }
  }

  #explain(error: unknown, subjects: readonly Subject[], absent: AbsentReason): unknown {
    const [first, ...others] = subjects;
    const names =
      others.length === 0 ? first?.name : subjects.map(({ name, version }) => `${name}@${version}`).join(", ");
    if (!(error instanceof NpmError)) {
      return explainFullDisk(error, names ?? "") ?? error;
    }
    this.#options.log(`npm has failed (${describe(subjects)}); the modules remain as they were`, {
      npmCode: error.code,
      npmOutput: error.output.slice(-maxOutputChars),
    });
    return explainNpmError(error, names ?? "", { ...this.#options, absent });
  }

  async #openRegistry() {
    const { registry } = this.#options;
    return registry !== undefined && isAbsolute(registry) ? openFolderRegistry(registry) : undefined;
  }

  async #edit<T>(localUrl: string | undefined, edit: (npm: Npm, staging: Staging) => Promise<T>): Promise<T> {
    const { dataDir, registry, npmrc, timeoutMs, sizeMb } = this.#options;
    const cacheDir = join(dataDir, cacheName);
    const isLocal = registry !== undefined && isAbsolute(registry);
    const maxBytes = sizeMb * bytesPerMb;
    return changeModules(dataDir, async (staging) => {
      const { signal } = this.#closing;
      const url = isLocal ? localUrl : registry;
      const { work, tree } = staging;
      const npm = createNpm(work, tree, { registry: url, npmrc, cacheDir, isLocal, signal, timeoutMs, maxBytes });
      const result = await edit(npm, staging);
      if ((await measure(staging.tree, maxBytes)) > maxBytes) {
        throw new NpmError("size", "");
      }
      if (signal.aborted) {
        throw new NpmError("aborted", "");
      }
      return result;
    });
  }

  #check(installed: readonly InstalledModule[]): void {
    for (const { name, version } of installed) {
      if (!isAllowed(this.#options, name, version)) {
        throw this.#refused(`${name}@${version}`);
      }
    }
  }

  #refused(what: string): FlowgateError {
    return new FlowgateError(
      "module_refused",
      `${what} may not be installed: modules.allow and modules.deny of the configuration say which modules may be`,
    );
  }

  async #cleanUp(): Promise<void> {
    const { dataDir } = this.#options;
    try {
      const isLeft = existsSync(dataDir) && readdirSync(dataDir).some((name) => name.startsWith(stagingPrefix));
      const modulesDir = join(dataDir, modulesDirName);
      if (isLeft || existsSync(previousModulesDir(modulesDir)) || listAdditions(modulesDir).length > 0) {
        await removeLeftovers(dataDir);
      }
    } catch {
      // Another process changes the modules now; the next change removes it.
    }
  }
}

const maxOutputChars = 4_000;

function describe(subjects: readonly Subject[]): string {
  return subjects.map(({ action, name }) => `${action} ${name}`).join(", ");
}
