// Runs the service from a build of the present sources, which it makes first if they have changed: `npm start`.
import { readdirSync, statSync, utimesSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { ensureConsole } from "./console.ts";
import { digestFiles, listFiles, root } from "./sources.ts";

const builds = join(root, "dist/start");

/** Services that were started from older builds still load files of them. */
const keptBuilds = 5;

const build = await openBuild();
if (startsService(process.argv[2])) {
  await openConsole();
}
const program = build === undefined ? join(root, "src/cli/main.ts") : join(build, "cli/main.js");
// Entries of the compile cache have the path of the code: those of a build are deleted with it.
const cache = build && { NODE_COMPILE_CACHE: join(build, "compile-cache") };
if (process.execve === undefined) {
  throw new Error("npm start needs Linux or macOS");
}
process.execve(process.execPath, [process.execPath, program, ...process.argv.slice(2)], { ...process.env, ...cache });

/** The folder of a build of the present sources; undefined: it can't be written. */
async function openBuild(): Promise<string | undefined> {
  try {
    for (;;) {
      const folder = join(builds, digestSources());
      if (touch(folder)) {
        return folder;
      }
      process.stderr.write("flowgate: building the sources, which are new or have changed\n");
      await createBuild(folder);
    }
  } catch (error) {
    if (!hasCode(error, "EACCES", "EPERM", "EROFS")) {
      throw error;
    }
    process.stderr.write("flowgate: dist/start is not writable: running the sources, which takes more memory\n");
    return undefined;
  }
}

/** Whether these are the arguments of `serve`. A bare command has its flags. */
function startsService(first = "serve"): boolean {
  return first === "serve" || (first.startsWith("-") && !["--help", "-h", "--version", "-V"].includes(first));
}

/** Without a console, the service serves everything else. */
async function openConsole(): Promise<void> {
  try {
    await ensureConsole(() =>
      process.stderr.write("flowgate: building the web console, which is new or has changed\n"),
    );
  } catch (error) {
    const reason = hasCode(error, "EACCES", "EPERM", "EROFS")
      ? "dist is not writable"
      : "its development packages are not installed (npm install --include=dev)";
    if (!hasCode(error, "EACCES", "EPERM", "EROFS", "ERR_MODULE_NOT_FOUND")) {
      throw error;
    }
    process.stderr.write(`flowgate: the web console is not built: ${reason}\n`);
  }
}

/** Identifies the files of this checkout, the installed packages and the version of Node. */
function digestSources(): string {
  // The console has a build of its own.
  const names = readdirSync(join(root, "packages")).filter((name) => name !== "console");
  const packages = names.map((name) => join("packages", name));
  const sources = ["", ...packages].flatMap((folder) =>
    ["src", "gen"].flatMap((name) => listFiles(join(folder, name))),
  );
  const manifests = ["", ...packages].map((folder) => join(folder, "package.json"));
  return digestFiles([
    ...sources,
    ...manifests,
    "scripts/bundle.ts",
    "tsconfig.json",
    "node_modules/.package-lock.json",
  ]);
}

/** Creates the folder, complete, unless the sources change meanwhile. */
async function createBuild(folder: string): Promise<void> {
  const { bundleService, writeBundle } = await loadBundler();
  await mkdir(builds, { recursive: true });
  const unfinished = await mkdtemp(join(builds, "unfinished-"));
  try {
    await writeBundle(await bundleService(), unfinished);
    if (folder === join(builds, digestSources())) {
      await rename(unfinished, folder);
    }
  } catch (error) {
    // Another process has made the same build.
    if (!hasCode(error, "ENOTEMPTY", "EEXIST")) {
      throw error;
    }
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  await removeOldBuilds();
}

async function loadBundler() {
  try {
    return await import("./bundle.ts");
  } catch (error) {
    if (!hasCode(error, "ERR_MODULE_NOT_FOUND")) {
      throw error;
    }
    process.stderr.write(
      "flowgate: the sources are built with development packages, which are not installed: run npm install --include=dev\n",
    );
    process.exit(1);
  }
}

/** Marks a build as started. False: it does not exist. */
function touch(folder: string): boolean {
  try {
    utimesSync(folder, new Date(), new Date());
    return true;
  } catch (error) {
    if (!hasCode(error, "ENOENT")) {
      throw error;
    }
    return false;
  }
}

/** Removes the builds that were not started for the longest time, and those that were interrupted. */
async function removeOldBuilds(): Promise<void> {
  const folders = (await readdir(builds)).map((name) => join(builds, name));
  const startedMs = new Map(
    folders.map((folder) => [folder, statSync(folder, { throwIfNoEntry: false })?.mtimeMs ?? 0]),
  );
  const byStart = folders.toSorted((a, b) => (startedMs.get(b) ?? 0) - (startedMs.get(a) ?? 0));
  for (const folder of byStart.slice(keptBuilds)) {
    await rm(folder, { recursive: true, force: true });
  }
}

function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return codes.includes((error as NodeJS.ErrnoException).code ?? "");
}
