import { isSea } from "node:sea";

/** By this first argument a single-file executable runs the program that the second one names. */
export const launchArgument = "flow-runtime";

/**
 * The arguments with which `process.execPath` runs a program under these flags of Node's.
 *
 * A single-file executable takes such flags in one argument only, which src/cli/executable.ts asks for, and
 * runs nothing but itself: there the program is for it to load.
 */
export function launchArguments(flags: readonly string[], program: string): string[] {
  return isSea() ? [`--node-options=${flags.map(quote).join(" ")}`, launchArgument, program] : [...flags, program];
}

/** As Node reads it: within double quotes a backslash keeps what follows from being special. */
function quote(flag: string): string {
  return `"${flag.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}
