import { isSea } from "node:sea";

/** With this first argument a single-file executable runs the program that the second argument names. */
export const launchArgument = "flow-runtime";

/**
 * Returns the arguments with which `process.execPath` runs a program under the given Node flags.
 *
 * A single-file executable can only run itself and accepts Node flags in one argument only, as src/cli/executable.ts
 * configures it. It loads the program by `launchArgument`.
 */
export function launchArguments(flags: readonly string[], program: string): string[] {
  return isSea() ? [`--node-options=${flags.map(quote).join(" ")}`, launchArgument, program] : [...flags, program];
}

/** Quotes a flag for NODE_OPTIONS, where a backslash escapes the next character within double quotes. */
function quote(flag: string): string {
  return `"${flag.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
