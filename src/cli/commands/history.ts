import { type Command, InvalidArgumentError, Option } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import type { HistoryFlags } from "../revisions/list-revisions.ts";

export function defineHistory(root: Command): void {
  root
    .command("history")
    .summary("list what was deployed")
    .description(
      "List revisions, newest first: who deployed what, when, and what has become of it. * is the active one.",
    )
    .option("-n, --limit <count>", "how many", parseCount, 20)
    .option("--page-token <token>", "continue a list, as its last line says")
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
      "only those deployed at this time or later, such as 2026-03-01 or 2026-03-01T09:30Z",
      parseTime,
    )
    .option("--until <time>", "only those deployed before this time", parseTime)
    .addHelpText(
      "after",
      examples(
        ["flowgate history", "the last 20"],
        ["flowgate history --user ada --since 2026-03-01", "what ada has deployed since March"],
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

function parseCount(text: string): number {
  if (!/^\d{1,4}$/.test(text) || Number(text) < 1 || Number(text) > 1_000) {
    throw new InvalidArgumentError("It is a number from 1 to 1000.");
  }
  return Number(text);
}

function parseTime(text: string): Date {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) {
    throw new InvalidArgumentError("It is a date such as 2026-03-01, or a time such as 2026-03-01T09:30Z.");
  }
  return time;
}
