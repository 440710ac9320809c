import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { inject } from "vitest";
import { workspaces } from "../../scripts/workspaces.ts";
import { copyCheckout, run } from "./stage.ts";

export type Build = {
  /** A copy of the checkout with the built packages. */
  readonly checkout: string;
  /** The packed packages: the gateway, the client, the service. */
  readonly archives: readonly string[];
};

/** Builds and packs the packages of this repository, once for all test files of a run. */
export async function buildPackages(): Promise<Build> {
  const folder = inject("runFolder");
  const [lock, result] = [join(folder, "build.lock"), join(folder, "build.json")];
  for (;;) {
    if (existsSync(result)) {
      return JSON.parse(await readFile(result, "utf8")) as Build;
    }
    if (await isCreated(lock)) {
      try {
        await writeFile(`${result}.part`, JSON.stringify(await buildIn(join(folder, "checkout"))));
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

async function buildIn(checkout: string): Promise<Build> {
  await copyCheckout(checkout);
  await run("npm", ["run", "--silent", "build"], { cwd: checkout });
  const folders = [...workspaces.map((workspace) => `./${workspace}/dist`), "."];
  const pack = ["pack", "--json", "--silent", "--ignore-scripts", ...folders];
  const packed = JSON.parse(await run("npm", pack, { cwd: checkout })) as readonly { filename: string }[];
  return { checkout, archives: packed.map(({ filename }) => join(checkout, filename)) };
}
