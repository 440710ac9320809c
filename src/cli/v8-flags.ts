import { setFlagsFromString } from "node:v8";

/** V8's defaults of the flags that a start sets. A test compares them with those of Node. */
export const v8Defaults = {
  "--semi-space-growth-factor": 2,
  "--invocation-count-for-maglev": 400,
  "--invocation-count-for-turbofan": 3000,
  "--baseline-batch-compilation-threshold": 4096,
} as const;

/**
 * Prevents V8's young generation from growing, until the returned function is called. Must be called before modules are
 * loaded.
 *
 * Most objects allocated by loading modules are long-lived, for which V8 enlarges the young generation to three
 * semi-spaces of up to 16 MiB. An idle process would keep that memory.
 */
export function limitYoungGeneration(): () => void {
  return set({ "--semi-space-growth-factor": 1 });
}

/**
 * Prevents V8 from compiling functions for speed that only the start calls often, until the returned function is called. The
 * compilers stay on: a thread that is started without them would not have them later. Ten times the defaults, since a function that
 * has been called meanwhile keeps these numbers until it is compiled.
 */
export function pauseCompilers(): () => void {
  return set({
    "--invocation-count-for-maglev": 4_000,
    "--invocation-count-for-turbofan": 30_000,
    "--baseline-batch-compilation-threshold": 100_000_000,
  });
}

/** Returns a function that sets the flags to their defaults again. */
function set(flags: Partial<Record<keyof typeof v8Defaults, number>>): () => void {
  const names = Object.keys(flags) as (keyof typeof v8Defaults)[];
  names.forEach((name) => setFlagsFromString(`${name}=${flags[name]}`));
  return () => names.forEach((name) => setFlagsFromString(`${name}=${v8Defaults[name]}`));
}
