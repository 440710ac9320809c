import { join } from "node:path";
import { readManifest } from "../runtime/folders.ts";

/** A package that npm has installed, from its lockfile. */
export type LockedPackage = {
  readonly name: string;
  /** Below the folder of modules, such as `node_modules/a/node_modules/b`. */
  readonly path: string;
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly inBundle?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
};

const maxLockfileBytes = 64 * 1024 * 1024;

/** The packages in a folder of modules; none if it has no lockfile. */
export function readLockfile(modulesDir: string): LockedPackage[] {
  const { packages } = readManifest(join(modulesDir, "package-lock.json"), maxLockfileBytes);
  return Object.entries(Object(packages) as Record<string, Omit<LockedPackage, "path" | "name">>)
    .filter(([path]) => path !== "")
    .map(([path, entry]) => ({ ...entry, path, name: path.slice(path.lastIndexOf("node_modules/") + 13) }));
}
