import { type Command, Option } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import { parseLimit, parseTime } from "../parse-values.ts";
import type { HistoryFlags } from "../revisions/list-revisions.ts";

export function defineHistory(root: Command): void {
  root
    .command("history")
    .summary("list what was deployed")
    .description("List revisions, newest first: who deployed what, when, and with which outcome. * is the active one.")
    .option("-n, --limit <number>", "list at most this many", parseLimit, 20)
    .option("--user <name>", "only those deployed by this user")
    .addOption(
      new Option("--outcome <outcome>", "only those with this outcome").choices([
        "running",
        "failed",
        "crashed",
        "pending",
        "replaced",
      ]),
    )
    .option("--pinned", "only pinned ones")
    .option(
      "--since <time>",
      "only those deployed since this time, such as 2026-03-01T09:30:00Z, or within a duration before now, such as 24h",
      parseTime,
    )
    .option("--until <time>", "only those deployed before this time", parseTime)
    .addHelpText(
      "after",
      examples(
        ["flowgate history", "the last 20"],
        ["flowgate history --user ada --since 7d", "what ada has deployed in the last week"],
        ["flowgate history --outcome failed -o json", "for a program"],
        ["flowgate show @~1", "what one of them changed"],
      ),
    )
    .action(
      clientAction(async (context, flags: HistoryFlags) => {
        const { listRevisions } = await import("../revisions/list-revisions.ts");
        await listRevisions(context, flags);
      }),
    );
}
