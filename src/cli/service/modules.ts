import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import {
  type ModuleSpec,
  isModuleName,
  isVersionRange,
  modulesDirName,
  prepareModulesDir,
  previousModulesDir,
  readModules,
} from "../../runtime/folders.ts";
import { CliFailure, UsageFailure } from "../failure.ts";
import type { Output } from "../output/output.ts";
import { printableLines } from "../printable.ts";

export type InstallFlags = {
  readonly registry?: string;
  readonly npmrc?: string;
  readonly allowScripts?: readonly string[];
  readonly allowGit?: true;
};

/** The only variables that npm gets. */
const passedVariables =
  "LANG LC_ALL TZ NODE_EXTRA_CA_CERTS SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy".split(
    " ",
  );

const workPrefix = "modules-install-";

export async function listModules(output: Output, dataDir: string): Promise<void> {
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

export async function installModules(specs: readonly string[], flags: InstallFlags, dataDir: string): Promise<void> {
  const modules = specs.map(parseSpec);
  for (const name of flags.allowScripts ?? []) {
    assertModuleName(name);
  }
  process.stderr.write(`Installing ${specs.join(", ")} …\n`);
  const { installed, withScripts } = await change(dataDir, flags, async (npm, tree) => {
    await npm([
      "install",
      "--save-exact",
      "--",
      ...modules.map(({ name, version }) => `${name}@${version ?? "latest"}`),
    ]);
    const packages = await readLockfile(tree);
    assertFromRegistry(packages, flags.allowGit === true);
    const allowed = new Set(flags.allowScripts);
    const missing = [...allowed].find((name) => !packages.some((each) => each.name === name));
    if (missing !== undefined) {
      throw new CliFailure(`--allow-scripts names ${missing}, which none of the modules requires.`);
    }
    if (allowed.size > 0) {
      await npm(["rebuild", "--no-ignore-scripts", "--", ...allowed]);
    }
    return {
      installed: readModules(tree).filter(({ name }) => modules.some((module) => module.name === name)),
      withScripts: packages.filter(({ name, hasInstallScript }) => hasInstallScript && !allowed.has(name)),
    };
  });
  const notRun = withScripts.map(({ name }) => name);
  process.stdout.write(
    printableLines(
      [
        ...installed.map(({ name, version }) => `Installed ${name} ${version}.`),
        ...(notRun.length === 0
          ? []
          : [
              `The install scripts of ${notRun.join(", ")} were not run. If a module does not load without them, install it ` +
                `again with ${notRun.map((name) => `--allow-scripts ${name}`).join(" ")}.`,
            ]),
        "Run flowgate runtime restart to load what has changed.\n",
      ].join("\n"),
    ),
  );
}

export async function removeModules(names: readonly string[], dataDir: string): Promise<void> {
  const modules = readModules(join(dataDir, modulesDirName)).map(({ name }) => name);
  const unknown = names.find((name) => !modules.includes(name));
  if (unknown !== undefined) {
    const list = modules.length === 0 ? "There are no modules." : `There are: ${modules.join(", ")}.`;
    throw new CliFailure(`No module ${unknown} is installed. ${list}`);
  }
  await change(dataDir, {}, (npm) => npm(["uninstall", "--offline", "--", ...names]));
  process.stdout.write(
    `Removed ${names.join(", ")}.\nRun flowgate runtime restart to start the runtime without them.\n`,
  );
}

function parseSpec(spec: string): ModuleSpec {
  const at = spec.indexOf("@", 1);
  const name = at === -1 ? spec : spec.slice(0, at);
  const version = at === -1 ? undefined : spec.slice(at + 1);
  assertModuleName(name);
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

type Npm = (args: readonly string[]) => Promise<void>;

/** Runs `edit` on a copy of the modules, which replaces them if it succeeds. */
async function change<T>(
  dataDir: string,
  flags: InstallFlags,
  edit: (npm: Npm, tree: string) => Promise<T>,
): Promise<T> {
  await assertOwnDataDir(dataDir);
  using _ = await lockModules(dataDir);
  const current = prepareModulesDir(join(dataDir, modulesDirName));
  // Those of commands that were killed.
  const left = (await readdir(dataDir)).filter((name) => name.startsWith(workPrefix));
  for (const name of left) {
    await rm(join(dataDir, name), { recursive: true, force: true });
  }
  const work = await mkdtemp(resolve(dataDir, workPrefix));
  try {
    const tree = join(work, "tree");
    await mkdir(tree, { mode: 0o700 });
    // Without files that configure npm.
    for (const name of ["package.json", "package-lock.json", "node_modules"]) {
      await cp(join(current, name), join(tree, name), {
        recursive: true,
        verbatimSymlinks: true,
        mode: constants.COPYFILE_FICLONE,
      }).catch(ignoreMissing);
    }
    const result = await edit((args) => runNpm(args, { work, tree, flags }), tree);
    const previous = previousModulesDir(current);
    await rm(previous, { recursive: true, force: true });
    await rename(current, previous);
    await rename(tree, current);
    await rm(previous, { recursive: true, force: true });
    return result;
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** A lock of the operating system, which ends with the process. */
async function lockModules(dataDir: string): Promise<Disposable> {
  // Only when it is needed: the single-file executable contains this file, and runs flows without this built-in module.
  const { DatabaseSync } = await import("node:sqlite");
  const db = new DatabaseSync(join(dataDir, "modules.lock"), { timeout: 0 });
  try {
    db.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    db.close();
    throw new CliFailure("Another command changes the modules: wait until it has ended.", { cause: error });
  }
  return { [Symbol.dispose]: () => db.close() };
}

async function runNpm(
  args: readonly string[],
  { work, tree, flags }: { readonly work: string; readonly tree: string; readonly flags: InstallFlags },
): Promise<void> {
  const [command = "", ...rest] = args;
  const empty = join(work, "empty-npmrc");
  const noGit = join(work, "no-git");
  await writeFile(empty, "");
  const options = [
    `--prefix=${tree}`,
    `--userconfig=${flags.npmrc === undefined ? join(work, "no-npmrc") : resolve(flags.npmrc)}`,
    `--globalconfig=${empty}`,
    `--cache=${join(work, "cache")}`,
    ...(flags.registry === undefined ? [] : [`--registry=${flags.registry}`]),
    ...(flags.allowGit === true ? [] : [`--git=${noGit}`]),
    ...(rest.includes("--no-ignore-scripts") ? [] : ["--ignore-scripts"]),
    "--omit=dev",
    "--package-lock",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--loglevel=error",
  ];
  const environment = passedVariables.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const path = (process.env["PATH"] ?? "").split(delimiter).filter(isAbsolute).join(delimiter);
  const child = spawn("npm", [command, ...options, ...rest], {
    cwd: tree,
    env: { PATH: path, HOME: work, TMPDIR: work, ...Object.fromEntries(environment) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = Promise.all([text(child.stdout), text(child.stderr)]);
  const [code] = (await once(child, "close").catch(explainMissingNpm)) as [number | null];
  if (code === 0) {
    return;
  }
  const [stdout, stderr] = await output;
  const usesGit = stderr.includes(noGit);
  throw new CliFailure(
    [
      "npm could not change the modules, which remain as they were:",
      usesGit
        ? "a package requires another one from a git repository, which is not used unless --allow-git is given."
        : printableLines((stderr || stdout).trim().slice(-4_000)),
    ].join("\n"),
  );
}

function explainMissingNpm(error: NodeJS.ErrnoException): never {
  if (error.code !== "ENOENT") {
    throw error;
  }
  throw new CliFailure(
    "npm is not installed on this machine, and modules are installed with it: install it, such as with Node.js, and try again.",
    { cause: error },
  );
}

type LockedPackage = {
  readonly name: string;
  readonly path: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly inBundle?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
};

/** The packages that npm has installed, from its lockfile. */
async function readLockfile(tree: string): Promise<LockedPackage[]> {
  const { packages = {} } = JSON.parse(await readFile(join(tree, "package-lock.json"), "utf8")) as {
    packages?: Record<string, Omit<LockedPackage, "path" | "name">>;
  };
  return Object.entries(packages)
    .filter(([path]) => path !== "")
    .map(([path, entry]) => ({ ...entry, path, name: path.slice(path.lastIndexOf("node_modules/") + 13) }));
}

/** Throws if a package is not one of a registry, which has a hash. */
function assertFromRegistry(packages: readonly LockedPackage[], allowGit: boolean): void {
  if (allowGit) {
    return;
  }
  for (const { name, resolved, integrity, link, inBundle, dependencies, optionalDependencies } of packages) {
    const isFromRegistry = inBundle === true || (integrity !== undefined && /^https?:/.test(resolved ?? ""));
    const other = Object.entries({ ...dependencies, ...optionalDependencies }).find(
      ([, range]) => !range.startsWith("npm:") && range.trim() !== "" && !isVersionRange(range.trim()),
    );
    if (link === true || !isFromRegistry || other !== undefined) {
      throw new CliFailure(
        `${other === undefined ? name : `${name} requires ${other[0]}, which`} does not come from a registry: it is not installed, ` +
          "and the modules remain as they were. --allow-git permits git repositories and URLs.",
      );
    }
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") {
    throw error;
  }
}
