import type { Command } from "commander";
import { withoutServer } from "../client/connection-options.ts";
import { usageFailure } from "../failure.ts";
import { examples } from "../examples.ts";

export function defineHashPassword(root: Command): void {
  withoutServer(root.command("hash-password"))
    .summary("print the hash of a password")
    .description("Prompt for a password, or read one line from stdin, and print its hash for the configuration file.")
    .addHelpText(
      "after",
      examples(
        ["flowgate hash-password", "ask for it twice"],
        ["flowgate hash-password < password.txt", "without a prompt"],
      ),
    )
    .allowExcessArguments()
    .action(async (_options: unknown, command: Command) => {
      if (command.args.length > 0) {
        throw usageFailure(
          "hash-password takes no arguments, as other users of this machine could see them. It prompts, or reads a line from stdin.",
          "flowgate hash-password",
        );
      }
      const { hashPasswordCommand } = await import("../service/hash-password.ts");
      await hashPasswordCommand();
    });
}
