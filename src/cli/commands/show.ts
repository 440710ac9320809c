import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { fullFlag } from "../deployment/flags.ts";
import { examples } from "../examples.ts";
import { revisionArgument } from "../revisions/revision-argument.ts";

export function defineShow(root: Command): void {
  root
    .command("show")
    .summary("show a revision and what it changed")
    .description("Show who deployed a revision, when and why, its outcome, and what it changed.")
    .addArgument(revisionArgument().default("@").argOptional())
    .option(...fullFlag)
    .addHelpText(
      "after",
      examples(
        ["flowgate show", "the active revision"],
        ["flowgate show @~1", "the one before"],
        ["flowgate show 4fGx -o json", "for a program: the revision and its diff"],
      ),
    )
    .action(
      clientAction(async (context, rev: string) => {
        const { showRevision } = await import("../revisions/show-revision.ts");
        await showRevision(context, rev);
      }),
    );
}
