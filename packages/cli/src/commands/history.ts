import { type Command, Option } from "commander";
import { clientAction } from "../client/action.ts";
import { defineCommand } from "../define-command.ts";
import { addDeploymentFlags, fullFlag, parseLimit, parseTime, revisionArgument } from "../shared-flags.ts";

export function defineHistoryCommands(root: Command): void {
  defineCommand(root, "history", {
    summary: "list what was deployed",
    description:
      "List revisions, newest first: who deployed what, when, and with which outcome. * is the active one. " +
      "The table is as wide as the terminal, or 80 columns.",
    examples: {
      "flowgate history": "the last 20",
      "flowgate history --user ada --since 7d": "what ada has deployed in the last week",
      "flowgate history --outcome failed -o json": "for a program",
      "flowgate show @~1": "what one of them changed",
    },
  })
    .option("-n, --limit <number>", "list at most this many", parseLimit, 20)
    .option("--user <name>", "only those deployed by this user")
    .addOption(
      new Option("--outcome <outcome>", "only those with this outcome").choices([
        "running",
        "failed",
        "degraded",
        "pending",
        "undone",
        "replaced",
        "stopped",
      ]),
    )
    .option("--pinned", "only pinned ones")
    .option(
      "--since <time>",
      "only those deployed since this time, such as 2026-03-01T09:30:00Z, or within a duration before now, such as 24h",
      parseTime,
    )
    .option("--until <time>", "only those deployed before this time", parseTime)
    .option(...fullFlag)
    .action(clientAction(async () => (await import("../administration/history.ts")).listRevisions));

  defineCommand(root, "show", {
    summary: "show a revision and what it changed",
    description: "Show who deployed a revision, when and why, its outcome, and what it changed.",
    examples: {
      "flowgate show": "the active revision",
      "flowgate show @~1": "the one before",
      "flowgate show 4fGx -o json": "for a program: the revision and its diff",
    },
  })
    .addArgument(revisionArgument().default("@").argOptional())
    .option(...fullFlag)
    .action(clientAction(async () => (await import("../administration/history.ts")).showRevision));

  const undo = defineCommand(root, "undo", {
    summary: "deploy the previous flows again",
    description:
      "Deploy the flows and credentials before the active ones again, which creates a new revision. An undo after an undo deploys what was undone.",
    examples: {
      "flowgate undo": "show what changes, ask, and deploy",
      "flowgate undo --yes -m 'wrong tariff'": "do not ask, and keep a comment",
      "flowgate rollback @~3": "go back further",
    },
  }).action(clientAction(async () => (await import("../deployment/restore.ts")).undo));
  addDeploymentFlags(undo, ["full", "nodes", "flows"], "that of the deployment that is undone");

  const rollback = defineCommand(root, "rollback", {
    summary: "deploy the flows of an earlier revision again",
    description:
      "Deploy the flows and credentials of an earlier revision again, which creates a new revision. Nothing is removed from the history.",
    examples: {
      "flowgate rollback 4fGx0aQz": "show what changes, ask, and deploy",
      "flowgate rollback @~2 --yes": "the revision two before the active one, without a question",
      "flowgate rollback 4fGx --wait 30 --undo-on-failure": "keep the active flows if those do not run",
    },
  })
    .addArgument(revisionArgument())
    .action(clientAction(async () => (await import("../deployment/restore.ts")).rollback));
  addDeploymentFlags(rollback);

  defineCommand(root, "pin", {
    summary: "keep a revision in the history permanently",
    description: "Pin a revision, so that it is never removed from the history.",
    examples: { "flowgate pin @ -m 'release 12'": "the active one", "flowgate history --pinned": "list them" },
  })
    .addArgument(revisionArgument())
    .option("-m, --message <text>", "also replace its message")
    .action(clientAction(async () => (await import("../administration/history.ts")).pin));

  defineCommand(root, "unpin", {
    summary: "let a revision expire again",
    description: "Unpin a revision, so that it is removed from the history when it is too old.",
    examples: { "flowgate unpin 4fGx0aQz": "by the beginning of its rev" },
  })
    .addArgument(revisionArgument())
    .action(clientAction(async () => (await import("../administration/history.ts")).unpin));

  defineCommand(root, "message", {
    summary: "change the message of a revision",
    description: "Change the message of a revision. An empty one removes it.",
    examples: { "flowgate message @ 'new tariff from March'": "of the active revision" },
  })
    .addArgument(revisionArgument())
    .argument("<text>", "new message")
    .action(clientAction(async () => (await import("../administration/history.ts")).setMessage));
}
