import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { addDeploymentFlags, addForceFlag } from "../deployment/flags.ts";
import type { ImportFlags } from "../deployment/import.ts";
import { examples } from "../examples.ts";

const details = `
Nothing in the folder is run or changed. Its flows replace all flows of the server. Users are printed for flowgate.yaml, with
the permissions and modules that the flows need and what can't be imported. The credentialSecret of Node-RED is read from settings.js or
.config.runtime.json; otherwise from --credential-secret-file, the variable NODE_RED_CREDENTIAL_SECRET, or a prompt.`;

export function defineImport(root: Command): void {
  const command = root
    .command("import")
    .summary("deploy the flows of a Node-RED folder")
    .description("Deploy the flows and credentials in a user folder of Node-RED, usually ~/.node-red.")
    .argument("<folder>", "user folder of Node-RED")
    .option("--flow-file <file>", "file of flows, if it is not the one that Node-RED uses")
    .option("--credential-secret-file <file>", "file with the credentialSecret of Node-RED")
    .option("--dry-run", "deploy nothing")
    .addHelpText(
      "after",
      `${details}\n${examples(
        ["flowgate import ~/.node-red --dry-run", "see what would be imported and what not"],
        ["flowgate import ~/.node-red", "show the plan, ask, and deploy"],
        ["flowgate import ~/.node-red --credential-secret-file secret", "decrypt its credentials with this secret"],
      )}`,
    )
    .action(
      clientAction(async (context, folder: string, flags: ImportFlags) => {
        const { importFolder } = await import("../deployment/import.ts");
        await importFolder(context, folder, flags);
      }),
    );
  addForceFlag(addDeploymentFlags(command));
}
