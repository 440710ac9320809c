import { existsSync } from "node:fs";
import { cp, mkdir, readFile, rename, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
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
  /** The packed packages: the gateway, the client, the service. */
  readonly archives: readonly string[];
};

/** Builds the packages of this repository as the Dockerfile does, and packs them, once for all test files of a run. */
export async function buildPackages(): Promise<Build> {
  const folder = inject("runFolder");
  const [lock, result] = [join(folder, "build.lock"), join(folder, "build.json")];
  for (;;) {
    if (existsSync(result)) {
      return JSON.parse(await readFile(result, "utf8")) as Build;
    }
    if (await isCreated(lock)) {
      try {
        await writeFile(`${result}.part`, JSON.stringify(await buildIn(folder)));
        await rename(`${result}.part`, result);
      } finally {
        await rmdir(lock);
      }
    } else {
      // Another process builds them.
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
  const packed = JSON.parse(await run("npm", pack, { cwd: checkout })) as readonly { filename: string }[];
  return { checkout, dockerBuild, archives: packed.map(({ filename }) => join(checkout, filename)) };
}
