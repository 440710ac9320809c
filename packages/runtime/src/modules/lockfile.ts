import { join } from "node:path";
import { readCertainManifest } from "@flowgate/base/manifest";

/** A package that npm has installed, from its lockfile. */
export type LockedPackage = {
  readonly name: string;
  /** Below the folder of modules, such as `node_modules/a/node_modules/b`. */
  readonly path: string;
  /** Its own name, if it is installed by another one. */
  readonly originalName?: string | undefined;
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: boolean;
  readonly inBundle?: boolean;
  readonly hasInstallScript?: boolean;
  readonly hasShrinkwrap?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
};

/** The folder for uploaded tarballs, in the folder of modules. */
export const uploadsName = "uploads";

/** The name of a tarball in that folder; undefined: the package comes from elsewhere. */
export function uploadOf(resolved: string | undefined): string | undefined {
  const prefix = `file:${uploadsName}/`;
  return resolved?.startsWith(prefix) === true ? resolved.slice(prefix.length) : undefined;
}

type Entry = Omit<LockedPackage, "path" | "name" | "originalName"> & { readonly name?: string };

const maxLockfileBytes = 64 * 1024 * 1024;

/** The packages in a folder of modules; none if it has no lockfile. */
export function readLockfile(modulesDir: string): LockedPackage[] {
  const { packages } = readCertainManifest(join(modulesDir, "package-lock.json"), maxLockfileBytes);
  return Object.entries(Object(packages) as Record<string, Entry>)
    .filter(([path]) => path !== "")
    .map(([path, { name: originalName, ...entry }]) => ({
      ...entry,
      path,
      name: path.slice(path.lastIndexOf("node_modules/") + 13),
      originalName,
    }));
}
