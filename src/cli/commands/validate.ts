import type { Command } from "commander";
import { examples } from "../examples.ts";
import { outputAction } from "../output/output-action.ts";

export function defineValidate(root: Command): void {
  root
    .command("validate")
    .summary("check files of flows, without a server")
    .description(
      "Check files of flows as a deployment does, without a server. Prints the line and column of each problem.",
    )
    .argument("<file...>", "files or folders with the whole configuration, JSON or YAML; - for stdin")
    .addHelpText(
      "after",
      examples(
        ["flowgate validate flows.json", "a file, as Node-RED or flowgate export write it"],
        ["flowgate validate flows/", "a folder with a file for each tab"],
        ["flowgate validate - < flows.yaml", "stdin"],
      ),
    )
    .action(
      outputAction(async (output, paths: readonly string[]) => {
        const { printValidation } = await import("../deployment/print-validation.ts");
        await printValidation(output, paths);
      }),
    );
}
