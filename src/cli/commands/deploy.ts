import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { addDeploymentFlags, addForceFlag, type DeploymentFlags } from "../deployment/flags.ts";
import { addFlowsFlags, type FlowsFlags } from "../deployment/flows-flags.ts";
import { examples } from "../examples.ts";
import { usageFailure } from "../failure.ts";

const details = `
Shows the plan and, in a terminal, asks for confirmation; without a terminal, as in a pipeline, it does not ask. Unless it
asks, it needs --force for flows that would not run, or nodes that lose credentials; those of removed nodes come back with
them. If someone else deploys between the plan and the deployment, nothing is deployed and the exit code is 3. If the flows
do not run, it is 4. Flows that are active already are not deployed again; the exit code is 4 too if they do not run.`;

export function defineDeploy(root: Command): void {
  const command = root
    .command("deploy")
    .summary("deploy flows")
    .description("Show what changes, and replace all flows by those of files.")
    .addHelpText(
      "after",
      `${details}\n${examples(
        ["flowgate deploy flows.json", "show the plan, ask, and deploy"],
        ["flowgate deploy flows/ -m 'new tariff'", "a folder, with a comment"],
        ["flowgate deploy flows/ --wait 30 --undo-on-failure", "keep the active flows if these do not run"],
        ["flowgate deploy flows/ --rev 4fGx0aQz --merge", "merge with what was deployed since"],
        ["generate | flowgate deploy -", "from stdin, without a question"],
        ["flowgate deploy --type reload", "read the flows from the store again, and restart all nodes"],
      )}`,
    )
    .action(
      clientAction(async (context, paths: readonly string[], flags: FlowsFlags & DeploymentFlags) => {
        const { deployFlows, reloadFlows } = await import("../deployment/deploy.ts");
        if (flags.type === "reload") {
          if (paths.length > 0) {
            throw usageFailure("--type reload takes no files.", "flowgate deploy");
          }
          return reloadFlows(context, flags);
        }
        if (paths.length === 0) {
          throw usageFailure("Name the files or folders to deploy, or - for stdin.", "flowgate deploy");
        }
        const { readFlows } = await import("../deployment/read-flows.ts");
        return deployFlows(context, await readFlows(context.session, paths, flags), flags);
      }),
    );
  addFlowsFlags(command, "[file...]");
  addForceFlag(addDeploymentFlags(command, ["full", "nodes", "flows", "reload"]));
}
