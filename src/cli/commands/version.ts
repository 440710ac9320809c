import type { Command } from "commander";
import { withoutServer } from "../client/connection-options.ts";
import { examples } from "../examples.ts";
import type { Program } from "../service/program.ts";

export function defineVersion(root: Command, { version }: Program): void {
  withoutServer(root.command("version"))
    .summary("print the version")
    .description("Print the version of this program.")
    .addHelpText("after", examples(["flowgate version", "of this program; flowgate status has that of the service"]))
    .action(() => {
      process.stdout.write(`${version()}\n`);
    });
}
