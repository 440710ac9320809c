import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import { revisionNames } from "../revisions/revision-argument.ts";

const details = `
A path that ends in .json, .yaml or .yml is a file, any other one a folder, which gets a stable file for each tab: changes
of one tab change one file. Credentials are never exported. -o selects the format.`;

export function defineExport(root: Command): void {
  root
    .command("export")
    .summary("write the active flows to a file or a folder")
    .description("Write the active flows, or those of a revision, to stdout, a file or a folder.")
    .argument("[path]", "file or folder; stdout by default")
    .option("--rev <rev>", `revision: ${revisionNames}; by default the active one`)
    .addHelpText(
      "after",
      `${details}\n${examples(
        ["flowgate export > flows.json", "to stdout"],
        ["flowgate export flows/", "to a folder, to keep it in git and deploy it with flowgate sync"],
        ["flowgate export flows/ -o json", "the same, as JSON"],
        ["flowgate export --rev @~1 before.yaml", "the flows before the last deployment"],
      )}`,
    )
    .action(
      clientAction(async (context, path: string | undefined, { rev }: { rev?: string }) => {
        const { exportFlows } = await import("../deployment/export.ts");
        await exportFlows(context, path, rev);
      }),
    );
}
