import { stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { FlowgateError } from "@flowgate/flows/errors";
import {
  type Staging,
  cacheName,
  changeModules,
  explainReserved,
  explainAbsent,
  explainFullDisk,
  openFolderRegistry,
  type PackageSource,
  installPackages,
  uninstallPackages,
  NpmError,
  type NpmOptions,
  createNpm,
  isAllowed,
  isModuleName,
  isVersionRange,
  readModules,
  modulesDirName,
} from "@flowgate/runtime/modules";
import type { Options } from "../options/parse.ts";
import { CliFailure, UsageFailure, printableLines } from "@flowgate/cli";
import type { Output } from "@flowgate/cli/output";

export type InstallFlags = {
  readonly registry?: string;
  readonly npmrc?: string;
  readonly allowScripts?: readonly string[];
  readonly allowGit?: true;
};

/** The module settings of the service's configuration. */
type LocalOptions = Pick<Options, "dataDir" | "modules">;

export async function listModules(output: Output, { dataDir }: LocalOptions): Promise<void> {
  await assertOwnDataDir(dataDir);
  const modules = readModules(join(dataDir, modulesDirName));
  output.value(modules, () =>
    modules.length === 0
      ? "There are no modules. Install one with flowgate module install."
      : output.table(
          ["NAME", "VERSION"],
          modules.map(({ name, version = "" }) => [name, version]),
        ),
  );
}

/** The flags take precedence over the configuration. */
export async function installModules(
  specs: readonly string[],
  flags: InstallFlags,
  { dataDir, modules: settings }: LocalOptions,
): Promise<void> {
  const sources = specs.map(parseSpec);
  const { allowScripts = [], allowGit: allowsGit, registry = settings.registry, npmrc = settings.npmrc } = flags;
  for (const name of allowScripts) {
    assertModuleName(name);
  }
  await assertOwnDataDir(dataDir);
  process.stderr.write(`Installing ${specs.join(", ")} …\n`);
  await using folder =
    registry !== undefined && isAbsolute(registry) ? await explained(() => openFolderRegistry(registry)) : undefined;
  const options = { registry: folder?.url ?? registry, npmrc, allowsGit, isLocal: folder !== undefined };
  const { installed, scriptsNotRun, scriptsNeverRun } = await change(dataDir, options, (npm, staging) =>
    installPackages(staging, npm, sources, {
      allowsGit,
      originHint: ". --allow-git permits git repositories and URLs",
      scripts: [...allowScripts, ...settings.scripts],
      rerun: allowScripts,
      check(modules, packages) {
        const missing = allowScripts.find((name) => !packages.some((each) => each.name === name));
        if (missing !== undefined) {
          throw new CliFailure(`--allow-scripts names ${missing}, which none of the modules requires.`);
        }
        const refused = modules.find(({ name, version }) => !isAllowed(settings, name, version));
        if (refused !== undefined) {
          throw new CliFailure(
            `${refused.name}@${refused.version} may not be installed, as modules.allow and modules.deny of the configuration say.`,
          );
        }
      },
    }),
  );
  const runnable = scriptsNotRun.filter((name) => !scriptsNeverRun.includes(name));
  process.stdout.write(
    printableLines(
      [
        ...installed.map(({ name, version }) => `Installed ${name} ${version}.`),
        ...(runnable.length === 0
          ? []
          : [
              `The install scripts of ${runnable.join(", ")} were not run. If a module does not load without them, install it ` +
                `again with ${runnable.map((name) => `--allow-scripts ${name}`).join(" ")}.`,
            ]),
        ...(scriptsNeverRun.length === 0
          ? []
          : [
              `The install scripts of ${scriptsNeverRun.join(", ")} are never run, since a module has brought the packages by this ` +
                "name. If it does not load without them, install them by themselves.",
            ]),
        "Run flowgate runtime restart to load what has changed.\n",
      ].join("\n"),
    ),
  );
}

export async function removeModules(names: readonly string[], { dataDir }: LocalOptions): Promise<void> {
  await assertOwnDataDir(dataDir);
  const modules = readModules(join(dataDir, modulesDirName)).map(({ name }) => name);
  const unknown = names.find((name) => !modules.includes(name));
  if (unknown !== undefined) {
    const list = modules.length === 0 ? "There are no modules." : `There are: ${modules.join(", ")}.`;
    throw new CliFailure(`No module ${unknown} is installed. ${list}`);
  }
  await change(dataDir, {}, (npm, { tree }) => uninstallPackages(tree, npm, names));
  process.stdout.write(
    `Removed ${names.join(", ")}.\nRun flowgate runtime restart to start the runtime without them.\n`,
  );
}

function parseSpec(spec: string): PackageSource {
  const at = spec.indexOf("@", 1);
  const name = at === -1 ? spec : spec.slice(0, at);
  const version = at === -1 ? undefined : spec.slice(at + 1);
  assertModuleName(name);
  const reserved = explainReserved(name);
  if (reserved !== undefined) {
    throw new UsageFailure(`${reserved}.`);
  }
  if (version !== undefined && !isVersionRange(version)) {
    throw new UsageFailure(
      `${spec}: what follows the name must be a version, range or tag. Modules come from a registry, not from files, URLs or git.`,
    );
  }
  return { name, version };
}

function assertModuleName(name: string): void {
  if (!isModuleName(name)) {
    throw new UsageFailure(`${name} is not the name of an npm package.`);
  }
}

/** The data directory must belong to this user: files of another user in it could not be read, or replaced, by the service. */
async function assertOwnDataDir(dataDir: string): Promise<void> {
  const found = await stat(dataDir).catch(() => undefined);
  if (found === undefined) {
    throw new CliFailure(
      `There is no data directory ${dataDir}: name that of the service with --data-dir or --config, or start the service once.`,
    );
  }
  if (process.getuid !== undefined && found.uid !== process.getuid()) {
    const own = process.getuid() === 0 ? "root" : `the user with the id ${process.getuid()}`;
    throw new CliFailure(
      `The data directory ${dataDir} belongs to the user with the id ${found.uid}, and this is ${own}: the service could not use ` +
        `what is installed. Run the command as that user, such as with sudo -u '#${found.uid}'.`,
    );
  }
}

/** Changes the modules as the service does. Throws a CliFailure. */
function change<T>(
  dataDir: string,
  options: Omit<NpmOptions, "cacheDir">,
  edit: (npm: ReturnType<typeof createNpm>, staging: Staging) => Promise<T>,
): Promise<T> {
  const cacheDir = join(dataDir, cacheName);
  return explained(() =>
    changeModules(dataDir, (staging) => edit(createNpm(staging.work, staging.tree, { ...options, cacheDir }), staging)),
  );
}

async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const failure = error instanceof FlowgateError ? error : explainFullDisk(error, "modules");
    if (failure !== undefined) {
      throw new CliFailure(`${failure.message}.`, { cause: error });
    }
    throw error instanceof NpmError ? new CliFailure(explainNpm(error), { cause: error }) : error;
  }
}

/** With the output of npm, unlike for callers of the service: this is its operator. */
function explainNpm({ code, output }: NpmError): string {
  const absent = explainAbsent({ code, output });
  if (absent !== undefined) {
    return `${absent}. The modules remain as they were.`;
  }
  if (code === "missing") {
    return "npm is not installed on this machine, and modules are installed with it: install it, such as with Node.js, and try again.";
  }
  return [
    "npm could not change the modules, which remain as they were:",
    code === "git"
      ? "a package requires another one from a git repository, which is not used unless --allow-git is given."
      : printableLines(output.trim().slice(-4_000)),
  ].join("\n");
}
