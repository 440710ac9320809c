import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { addFlowsFlags, type FlowsFlags } from "../deployment/flows-flags.ts";
import { addTypeFlag, type DeploymentFlags, fullFlag } from "../deployment/flags.ts";
import { examples } from "../examples.ts";

const details = `
The exit code is 4 if node types are not installed, because of which no flow would run, and otherwise 0, with or without
changes. flowgate diff exits with 2 if there are changes.`;

export function definePlan(root: Command): void {
  const command = root
    .command("plan")
    .summary("show what a deployment would do")
    .description(
      "Show what a deployment would change, which nodes would restart, what is not installed, and warnings. Nothing is deployed.",
    )
    .addHelpText(
      "after",
      `${details}\n${examples(
        ["flowgate plan flows.json", "a file, as Node-RED or flowgate export write it"],
        ["flowgate plan flows/", "a folder with a file for each tab"],
        ["flowgate plan --type nodes flows/", "only changed nodes would restart"],
        ["flowgate plan flows/ -o json", "for a program"],
      )}`,
    )
    .action(
      clientAction(async (context, paths: readonly string[], flags: FlowsFlags & Pick<DeploymentFlags, "type">) => {
        const { printPlan } = await import("../deployment/print-plan.ts");
        await printPlan(context, paths, flags);
      }),
    );
  addFlowsFlags(command, "<file...>");
  addTypeFlag(command).option(...fullFlag);
}
