import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import { revisionArgument } from "../revisions/revision-argument.ts";

export function definePin(root: Command): void {
  root
    .command("pin")
    .summary("keep a revision in the history permanently")
    .description("Pin a revision, so that it is never removed from the history.")
    .addArgument(revisionArgument())
    .option("-m, --message <text>", "also replace its message")
    .addHelpText(
      "after",
      examples(["flowgate pin @ -m 'release 12'", "the active one"], ["flowgate history --pinned", "list them"]),
    )
    .action(
      clientAction(async (context, rev: string, { message }: { message?: string }) => {
        const { updateRevision } = await import("../revisions/update-revision.ts");
        await updateRevision(context, rev, { pinned: true, ...(message !== undefined && { message }) });
      }),
    );
  root
    .command("unpin")
    .summary("let a revision expire again")
    .description("Unpin a revision, so that it is removed from the history when it is too old.")
    .addArgument(revisionArgument())
    .addHelpText("after", examples(["flowgate unpin 4fGx0aQz", "by the beginning of its rev"]))
    .action(
      clientAction(async (context, rev: string) => {
        const { updateRevision } = await import("../revisions/update-revision.ts");
        await updateRevision(context, rev, { pinned: false });
      }),
    );
  root
    .command("message")
    .summary("change the message of a revision")
    .description("Change the message of a revision. An empty one removes it.")
    .addArgument(revisionArgument())
    .argument("<text>", "new message")
    .addHelpText("after", examples(["flowgate message @ 'new tariff from March'", "of the active revision"]))
    .action(
      clientAction(async (context, rev: string, message: string) => {
        const { updateRevision } = await import("../revisions/update-revision.ts");
        await updateRevision(context, rev, { message });
      }),
    );
}
