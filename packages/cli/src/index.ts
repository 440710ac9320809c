// The command line, and what the package of the service needs to add commands to it.
export { outputAction, runsLocally } from "./client/action.ts";
export { assertNoServer } from "./client/connection-flags.ts";
export { commandPath, createCommandLine } from "./command-line.ts";
export { addHelp, defineCommand } from "./define-command.ts";
export { CliFailure, exitCodes, UsageFailure } from "./failure.ts";
export { printableLines } from "./printable.ts";
export { readVersion, runCommandLine } from "./run.ts";
export { findCommand, isGiven, type ServiceCommands } from "./service-commands.ts";
export { parseDuration } from "./shared-flags.ts";
