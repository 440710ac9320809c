import { createHash } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { FlowgateError } from "../errors.ts";
import type { ModuleLists } from "../runtime/messages.ts";
import {
  isModuleName,
  isVersionRange,
  modulesDirName,
  previousModulesDir,
  readDisabledModules,
} from "../runtime/folders.ts";
import { type InstalledModule, ModuleCatalog } from "./catalog.ts";
import { type Staging, changeInPlace, changeModules, removeLeftovers, stagingPrefix } from "./change.ts";
import { explainNpmError } from "./errors.ts";
import { openFolderRegistry } from "./folder-registry.ts";
import {
  type Installation,
  type PackageSource,
  assertRequiresRegistry,
  installPackages,
  uninstallPackages,
  uploadsName,
  writeDisabledModules,
} from "./install.ts";
import { type Npm, NpmError, createNpm, measure } from "./npm.ts";
import { isAllowed } from "./policy.ts";
import { readPackageManifest } from "./tarball.ts";

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

/** What a change of the modules does. `message` is the step that has begun, or the reason of the failure. */
type ModuleProgress = {
  readonly action: ModuleAction;
  readonly name: string;
  readonly version: string;
  readonly state: "running" | "done" | "failed";
  readonly message: string;
};

type ModulesOptions = ModuleSettings & {
  readonly dataDir: string;
  readonly log: (message: string, fields: object) => void;
  readonly onProgress: (progress: ModuleProgress) => void;
};

type Installed = Installation & {
  /** The version that was installed before; undefined if none was. */
  readonly previousVersion: string | undefined;
};

/** A package to install, by its name and a version, range or tag; or its tarball. */
export type InstallRequest = { readonly name: string; readonly version: string } | { readonly tarball: Uint8Array };

type Subject = Pick<ModuleProgress, "action" | "name" | "version">;

const bytesPerMb = 1024 * 1024;

/** Opens the modules of a service. Removes in the background what a process has left that was killed while it changed them. */
export function openModules(options: ModulesOptions): Modules {
  return new Modules(options);
}

/** Lists and changes the modules of a service, one change at a time. Disposing ends a change in progress, which then has no effect. */
export class Modules implements AsyncDisposable {
  readonly #options: ModulesOptions;
  readonly #catalog: ModuleCatalog;
  readonly #closing = new AbortController();
  /** What another process has left is removed before the first change. */
  readonly #cleaned: Promise<void>;
  #current: { readonly subject: Subject; readonly done: Promise<unknown> } | undefined;

  constructor(options: ModulesOptions) {
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

  /** Installs a module, or another version of it. Throws `invalid_argument`, `module_refused`, and as `#change` does. */
  async install(request: InstallRequest): Promise<Installed> {
    const source = await this.#toSource(request);
    const { name, version = "latest" } = source;
    const previous = (await this.list()).find((each) => each.name === name);
    if (!isAllowed(this.#options, name)) {
      throw this.#refused(name);
    }
    const subject: Subject = { action: previous === undefined ? "install" : "update", name, version };
    const work = async (onStep: (step: string) => void): Promise<Installation> => {
      const registry = await this.#openRegistry();
      await using _ = registry;
      return await this.#edit(registry?.url, async (npm, { tree }) => {
        if ("tarball" in request) {
          await mkdir(join(tree, uploadsName), { recursive: true });
          await writeFile(join(tree, uploadsName, source.upload ?? ""), request.tarball);
        }
        const { scripts } = this.#options;
        return installPackages(tree, npm, [source], { scripts, onStep, check: (installed) => this.#check(installed) });
      });
    };
    const installation = await this.#change(subject, work, ({ installed }) => installed[0]?.version);
    return { ...installation, previousVersion: previous?.version };
  }

  /** Throws `not_found`, and as `#change` does. */
  async remove(name: string): Promise<InstalledModule> {
    const module = await this.get(name);
    const subject: Subject = { action: "remove", name, version: module.version ?? "" };
    await this.#change(subject, () => this.#edit(undefined, (npm, { tree }) => uninstallPackages(tree, npm, [name])));
    return module;
  }

  /** Throws `not_found`, and as `#change` does. */
  async setEnabled(name: string, isEnabled: boolean): Promise<InstalledModule> {
    const module = await this.get(name);
    if (module.isEnabled === isEnabled) {
      return module;
    }
    const subject: Subject = { action: isEnabled ? "enable" : "disable", name, version: module.version ?? "" };
    const { dataDir } = this.#options;
    await this.#change(subject, () =>
      changeInPlace(dataDir, (tree) => {
        const others = readDisabledModules(tree).filter((each) => each !== name);
        return writeDisabledModules(tree, isEnabled ? others : [...others, name]);
      }),
    );
    return this.get(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await this.#current?.done.catch(() => {});
  }

  async #toSource(request: InstallRequest): Promise<PackageSource> {
    if ("tarball" in request) {
      const manifest = await readPackageManifest(request.tarball);
      if (manifest === undefined) {
        throw new FlowgateError(
          "invalid_argument",
          "tarball: must be a package of npm, as npm pack makes it, whose package.json has a name and a version",
        );
      }
      const { name, version } = manifest;
      // Before npm reads what they name, in the network and on the disk of the service.
      for (const section of ["dependencies", "optionalDependencies", "peerDependencies"]) {
        assertRequiresRegistry(name, Object(manifest[section]) as Record<string, unknown>);
      }
      // With a hash, so that npm installs another package of the same version.
      const hash = createHash("sha256").update(request.tarball).digest("hex").slice(0, 16);
      return { name, version, upload: `${name.replace("/", "-").replace("@", "")}-${version}-${hash}.tgz` };
    }
    const { name, version } = request;
    if (!isModuleName(name)) {
      throw new FlowgateError("invalid_argument", "name: must be the name of an npm package, without a version");
    }
    if (!isVersionRange(version)) {
      throw new FlowgateError(
        "invalid_argument",
        "version: must be a version, range or tag of a package in a registry, and not a file, URL or git repository",
      );
    }
    return { name, version };
  }

  /**
   * Throws `modules_busy` while another change is in progress, `module_failed` if npm fails or the module is malformed, and
   * `registry_unavailable`; then nothing has changed. `versionOf` returns the version that a result has, if it was not known before.
   */
  async #change<T>(
    subject: Subject,
    work: (onStep: (step: string) => void) => Promise<T>,
    versionOf: (result: T) => string | undefined = () => undefined,
  ): Promise<T> {
    if (this.#closing.signal.aborted) {
      throw new FlowgateError("unavailable", "the service is stopping");
    }
    if (this.#current !== undefined) {
      const { action, name } = this.#current.subject;
      throw new FlowgateError(
        "modules_busy",
        `another change of the modules is in progress (${action} ${name}): wait until it has ended`,
      );
    }
    const report = (state: ModuleProgress["state"], message: string, version = subject.version): void =>
      this.#options.onProgress({ ...subject, version, state, message });
    const done = this.#cleaned.then(() => work((step) => report("running", step)));
    this.#current = { subject, done };
    try {
      const result = await done;
      report("done", "", versionOf(result));
      return result;
    } catch (error) {
      const failure = this.#explain(error, subject);
      report("failed", failure instanceof FlowgateError ? failure.message : "internal error");
      throw failure;
    } finally {
      this.#current = undefined;
    }
  }

  #explain(error: unknown, { action, name }: Subject): unknown {
    if (!(error instanceof NpmError)) {
      return error;
    }
    this.#options.log(`npm has failed (${action} ${name}); the modules remain as they were`, {
      npmCode: error.code,
      npmOutput: error.output.slice(-maxOutputChars),
    });
    return explainNpmError(error, name, this.#options);
  }

  async #openRegistry() {
    const { registry } = this.#options;
    return registry !== undefined && isAbsolute(registry) ? openFolderRegistry(registry) : undefined;
  }

  async #edit<T>(localUrl: string | undefined, edit: (npm: Npm, staging: Staging) => Promise<T>): Promise<T> {
    const { dataDir, registry, npmrc, timeoutMs, sizeMb } = this.#options;
    const isLocal = registry !== undefined && isAbsolute(registry);
    const maxBytes = sizeMb * bytesPerMb;
    return changeModules(dataDir, async (staging) => {
      const { signal } = this.#closing;
      const url = isLocal ? localUrl : registry;
      const npm = createNpm(staging.work, staging.tree, { registry: url, npmrc, isLocal, signal, timeoutMs, maxBytes });
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
      if (isLeft || existsSync(previousModulesDir(join(dataDir, modulesDirName)))) {
        await removeLeftovers(dataDir);
      }
    } catch {
      // Another process changes the modules now; the next change removes it.
    }
  }
}

const maxOutputChars = 4_000;
