import { createRequire } from "node:module";

/**
 * The path of a module of a package that is installed for the module with the URL `from`. Loads nothing. Throws if it is not installed.
 */
export function resolvePackage(specifier: string, from: string = import.meta.url): string {
  return createRequire(from).resolve(specifier);
}
