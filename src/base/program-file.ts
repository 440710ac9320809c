import { extname } from "node:path";

/** The modules that are started in a thread or process of their own. */
export const programs = [
  "auth/bcrypt-worker",
  "deployments/analysis/thread",
  "deployments/preparation/thread",
  "events/redaction/thread",
  "store/sqlite/journal-thread",
  "store/sqlite/write-thread",
] as const;

/**
 * The file of a module: a .ts file of the sources, or a .js file of the build, which bundles this module into a file of the same
 * folder (scripts/bundle.ts).
 */
export function programFile(program: (typeof programs)[number]): URL {
  return new URL(`../${program}${extname(import.meta.url)}`, import.meta.url);
}
