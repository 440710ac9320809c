import { createRequire } from "node:module";

/** The path of a module of a package that is installed with the service. Loads nothing. Throws if it is not installed. */
export function resolvePackage(specifier: string): string {
  return createRequire(import.meta.url).resolve(specifier);
}
