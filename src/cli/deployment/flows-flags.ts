import type { Command } from "commander";
import { revisionNames } from "../revisions/revision-argument.ts";

/** The flags of commands that read flows from files. */
export type FlowsFlags = { readonly rev?: string; readonly credentials?: string; readonly merge?: true };

export function addFlowsFlags(command: Command, argument: "<file...>" | "[file...]"): Command {
  return command
    .argument(argument, "files or folders with the whole configuration, JSON or YAML; - for stdin")
    .option("--rev <rev>", `fail if another revision is active: ${revisionNames}`)
    .option("--merge", "with --rev: merge with what was deployed since, unless both changed the same nodes")
    .option("--credentials <file>", "credentials by node id, or encrypted as in Node-RED's flows_cred.json");
}
