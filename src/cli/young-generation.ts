import { setFlagsFromString } from "node:v8";

/**
 * Prevents V8's young generation from growing, until the returned function is called. Must be called before modules are
 * loaded.
 *
 * Most objects allocated by loading modules are long-lived, for which V8 enlarges the young generation to three
 * semi-spaces of up to 16 MiB. An idle process would keep that memory.
 */
export function limitYoungGeneration(): () => void {
  setFlagsFromString("--semi-space-growth-factor=1");
  // V8's default.
  return () => setFlagsFromString("--semi-space-growth-factor=2");
}
