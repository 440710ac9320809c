// The command line, and what the package of the service needs to add commands to it.
export { commandPath, createCommandLine } from "./command-line.ts";
export { defineCommand } from "./commands/define-command.ts";
export { CliFailure, exitCodes, UsageFailure } from "./failure.ts";
export { printableLines } from "./printable.ts";
export { runCommandLine } from "./run.ts";
export { parseDuration } from "./shared-flags.ts";
