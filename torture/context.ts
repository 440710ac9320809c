import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRandom } from "../test/random.ts";

export type Size = "quick" | "full";

/** What a drill gets from the run that it is part of. */
export type Context = {
  readonly size: Size;
  /** Numbers from 0 to 1, which the seed determines. */
  readonly random: () => number;
  /** Returns the first value in a quick run, and the second one in a full run. */
  readonly pick: <T>(quick: T, full: T) => T;
  /** Duration of the soak; undefined for that of the size. */
  readonly minutes: number | undefined;
  /** Shows what the drill does. */
  readonly progress: (text: string) => void;
  /** Creates a folder, which is removed after the drill. */
  readonly createFolder: () => Promise<string>;
};

/** What a run was started with. */
export type RunOptions = Pick<Context, "size" | "minutes" | "progress"> & { readonly seed: number };

export function createContext(drill: string, { size, seed, minutes, progress }: RunOptions): Context {
  return {
    size,
    minutes,
    random: createRandom(seed ^ hash(drill)),
    pick: (quick, full) => (size === "quick" ? quick : full),
    progress,
    createFolder: () => mkdtemp(join(tmpdir(), "data-")),
  };
}

/** So that a drill has the same numbers when it runs alone. */
function hash(text: string): number {
  return Buffer.from(text).reduce((sum, byte) => (Math.imul(sum, 31) + byte) | 0, 0);
}
