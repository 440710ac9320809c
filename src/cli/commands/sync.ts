import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { addDeploymentFlags, addForceFlag, type DeploymentFlags } from "../deployment/flags.ts";
import { examples } from "../examples.ts";

const details = `
The folder is one that flowgate export has written, with a file for each tab. A tab whose file was removed is removed from
the server. Only changed nodes and those wired to them restart. If nothing changes, the exit code is 4 while the active flows
do not run.`;

export function defineSync(root: Command): void {
  const command = root
    .command("sync")
    .summary("deploy what differs from a folder")
    .description("Deploy what differs between a folder and the active flows; nothing if they are equal.")
    .argument("<folder>", "folder with a file for each tab")
    .option("--check", "deploy nothing; exit with 2 if they differ")
    .option("--credentials <file>", "credentials by node id, or encrypted as in Node-RED's flows_cred.json")
    .addHelpText(
      "after",
      `${details}\n${examples(
        ["flowgate export flows/", "write the active flows to a folder"],
        ["flowgate sync flows/", "show what changes, ask, and deploy"],
        ["flowgate sync flows/ --yes -m $COMMIT", "on each push"],
        ["flowgate sync flows/ --check", "find what was changed on the server only"],
      )}`,
    )
    .action(
      clientAction(async (context, folder: string, flags: DeploymentFlags & { credentials?: string; check?: true }) => {
        const { syncFolder } = await import("../deployment/sync.ts");
        await syncFolder(context, folder, flags);
      }),
    );
  addForceFlag(addDeploymentFlags(command, ["flows", "nodes", "full"]));
}
