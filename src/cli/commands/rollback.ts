import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { addDeploymentFlags, type DeploymentFlags } from "../deployment/flags.ts";
import { examples } from "../examples.ts";
import { revisionArgument } from "../revisions/revision-argument.ts";

export function defineRollback(root: Command): void {
  const command = root
    .command("rollback")
    .summary("deploy the flows of an earlier revision again")
    .description(
      "Deploy the flows and credentials of an earlier revision again, which creates a new revision. Nothing is removed from the history.",
    )
    .addArgument(revisionArgument())
    .addHelpText(
      "after",
      examples(
        ["flowgate rollback 4fGx0aQz", "show what changes, ask, and deploy"],
        ["flowgate rollback @~2 --yes", "the revision two before the active one, without a question"],
        ["flowgate rollback 4fGx --wait 30 --undo-on-failure", "keep the active flows if those do not run"],
      ),
    )
    .action(
      clientAction(async (context, rev: string, flags: DeploymentFlags) => {
        const { rollback } = await import("../deployment/restore.ts");
        await rollback(context, rev, flags);
      }),
    );
  addDeploymentFlags(command);
}
