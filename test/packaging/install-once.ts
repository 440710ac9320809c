import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { root } from "./stage.ts";

export type Installation = {
  /** The `node_modules` with the packages and their dependencies. */
  readonly folder: string;
  /** Why the packages can't be had; undefined: they are there. */
  readonly missing: string | undefined;
};

/** Installs packages from npm that few tests need, by exact versions, once for this checkout and apart from its dependencies. */
export async function installOnce(versions: Readonly<Record<string, string>>): Promise<Installation> {
  const packages = Object.entries(versions).map(([name, version]) => `${name}@${version}`);
  const cache = join(root, "node_modules/.cache/packages");
  const prefix = join(cache, createHash("sha256").update(packages.join(" ")).digest("hex").slice(0, 16));
  const folder = join(prefix, "node_modules");
  try {
    await access(folder).catch(() => install(packages, cache, prefix));
    return { folder, missing: undefined };
  } catch (error) {
    const missing = `${packages.join(", ")} can't be installed from npm: ${(error as Error).message}`;
    process.stderr.write(`${missing}\n`);
    return { folder, missing };
  }
}

async function install(packages: readonly string[], cache: string, prefix: string): Promise<void> {
  await mkdir(cache, { recursive: true });
  // Renamed when it is complete: other processes may install the same.
  const part = await mkdtemp(join(cache, "part-"));
  await writeFile(join(part, "package.json"), "{}");
  const settings = ["--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"];
  await promisify(execFile)("npm", ["install", "--prefix", part, ...settings, ...packages], { cwd: part });
  await rename(part, prefix).catch(() => rm(part, { recursive: true }));
}
