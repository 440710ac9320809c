import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { addDeploymentFlags, type DeploymentFlags } from "../deployment/flags.ts";
import { examples } from "../examples.ts";

export function defineUndo(root: Command): void {
  const command = root
    .command("undo")
    .summary("deploy the previous flows again")
    .description(
      "Deploy the flows and credentials before the active ones again, which creates a new revision. An undo after an undo deploys what was undone.",
    )
    .addHelpText(
      "after",
      examples(
        ["flowgate undo", "show what changes, ask, and deploy"],
        ["flowgate undo --yes -m 'wrong tariff'", "do not ask, and keep a comment"],
        ["flowgate rollback @~3", "go back further"],
      ),
    )
    .action(
      clientAction(async (context, flags: DeploymentFlags) => {
        const { undo } = await import("../deployment/restore.ts");
        await undo(context, flags);
      }),
    );
  addDeploymentFlags(command, ["full", "nodes", "flows"], "that of the deployment that is undone");
}
