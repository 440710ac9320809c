import { existsSync } from "node:fs";
import { cp, mkdir, readFile, rename, rmdir, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { inject } from "vitest";
import { workspaces } from "../../scripts/workspaces.ts";
import { buildStage } from "./image.ts";
import { copyCheckout, run } from "./stage.ts";

export type Build = {
  /** A copy of the checkout with the built packages. */
  readonly checkout: string;
  /** The folder of the Dockerfile's stage `build`, in which they were built. */
  readonly dockerBuild: string;
  /** The packed packages, by their names. */
  readonly archives: Readonly<Record<string, string>>;
};

/** Builds the packages of this repository as the Dockerfile does, and packs them, once for all test files of a run. */
export function buildPackages(): Promise<Build> {
  return createOnce("build", buildIn);
}

/**
 * The folder in whose `node_modules` npm has installed the packed packages, with what they depend on, once for all test files of a run.
 * Without the client, whose program has the same name as that of the service.
 */
export async function installPackages(): Promise<string> {
  const { "@flowgate/cli": _, ...archives } = (await buildPackages()).archives;
  return createOnce("installed", async (runFolder) => {
    const folder = join(runFolder, "installed");
    await mkdir(folder);
    const settings = ["--prefix", folder, "--prefer-offline", "--no-audit", "--no-fund"];
    await run("npm", ["install", ...settings, ...Object.values(archives)], { cwd: folder, env: shellEnvironment });
    return folder;
  });
}

/** The environment of a user's shell instead of an npm script, with Node 26 first on the PATH, since npm may have an older one. */
export const shellEnvironment = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("npm_"))),
  PATH: [dirname(process.execPath), process.env["PATH"]].join(delimiter),
};

/** What is created in the folder of a run by the first test file that needs it. */
async function createOnce<T>(name: string, create: (folder: string) => Promise<T>): Promise<T> {
  const folder = inject("runFolder");
  const [lock, result] = [join(folder, `${name}.lock`), join(folder, `${name}.json`)];
  for (;;) {
    if (existsSync(result)) {
      return JSON.parse(await readFile(result, "utf8")) as T;
    }
    if (await isCreated(lock)) {
      try {
        await writeFile(`${result}.part`, JSON.stringify(await create(folder)));
        await rename(`${result}.part`, result);
      } finally {
        await rmdir(lock);
      }
    } else {
      // Another process creates it.
      await delay(100);
    }
  }
}

async function isCreated(directory: string): Promise<boolean> {
  try {
    await mkdir(directory);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      throw error;
    }
    return false;
  }
}

async function buildIn(folder: string): Promise<Build> {
  const [checkout, dockerBuild] = [join(folder, "checkout"), join(folder, "docker-build")];
  await copyCheckout(checkout);
  buildStage(checkout, "build", dockerBuild);
  for (const path of ["dist", ...workspaces.map((workspace) => join(workspace, "dist"))]) {
    await cp(join(dockerBuild, "build", path), join(checkout, path), { recursive: true });
  }
  const folders = [...workspaces.map((workspace) => `./${workspace}/dist`), "."];
  const pack = ["pack", "--json", "--silent", "--ignore-scripts", ...folders];
  const packed = JSON.parse(await run("npm", pack, { cwd: checkout })) as readonly { name: string; filename: string }[];
  return {
    checkout,
    dockerBuild,
    archives: Object.fromEntries(packed.map(({ name, filename }) => [name, join(checkout, filename)])),
  };
}
