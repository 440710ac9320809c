import type { Command } from "commander";
import { clientAction } from "../client/action.ts";
import { defineCommand } from "../define-command.ts";
import { parseDuration, parseLimit, parseTime } from "../shared-flags.ts";

export function defineAdministerCommands(root: Command): void {
  const runtime = defineCommand(root, "runtime", {
    summary: "control the flow runtime",
    description: "Control the flow runtime, the process that runs the flows.",
    examples: { "flowgate runtime restart": "start the flows in a new process" },
  });

  defineCommand(runtime, "restart", {
    summary: "start the flows in a new process",
    description:
      "Start the active flows in a new process, which ends all code of the previous one. Also leaves safe mode. The exit " +
      "code is 4 if the flows do not run then.",
    examples: {
      "flowgate runtime restart": "the current server",
      "flowgate runtime restart --clear-files": "after a correction of flows that have filled the disk",
    },
  })
    .option(
      "--clear-files",
      "remove all files in the runtime's folder, such as those of flows that have filled the disk",
    )
    .option("-y, --yes", "remove them without a question")
    .action(clientAction(async () => (await import("../administration/runtime.ts")).restartRuntime));

  defineToken(root);

  defineAudit(root);
}

function defineToken(root: Command): void {
  const token = defineCommand(root, "token", {
    summary: "create, list and revoke access tokens",
    description: "Create, list and revoke access tokens.",
    examples: {
      "flowgate token create ci --scope 'flows.read flows.write revisions.read settings.read'": "for deployments",
      "flowgate token list": "who has which tokens",
      "flowgate token revoke 4fGx0aQz": "end one of them",
    },
  });

  defineCommand(token, "create", {
    summary: "create a token for a program",
    description:
      "Create a token of your user for a program. Only the token is printed on stdout. It can't be read again. A program that deploys needs " +
      "flows.read and flows.write; with revisions.read, it can name earlier revisions and shows the whole reasons of failures; with settings.read " +
      "and runtime.read, flowgate status shows more than the outcome.",
    examples: {
      "flowgate token create ci --scope 'flows.read flows.write revisions.read settings.read' --expires-in 30d":
        "for deployments",
      "FLOWGATE_TOKEN=$(flowgate token create backup --scope read)": "keep it in a variable",
    },
  })
    .argument("<name>", "what the token is for")
    .option("--scope <permissions>", "permissions, separated by spaces (default: those of this login)")
    .option("--expires-in <duration>", "lifetime, such as 30d or 12h (default: that of a login)", parseDuration)
    .action(clientAction(async () => (await load()).createToken));

  defineCommand(token, "list", {
    summary: "list tokens",
    description: "List the tokens that have not expired, newest first. The tokens themselves are not stored anywhere.",
    examples: { "flowgate token list --user ci": "of one user" },
  })
    .alias("ls")
    .option("-u, --user <name>", "only tokens of this user")
    .option("--limit <number>", "list at most this many", parseLimit, 100)
    .action(clientAction(async () => (await load()).listTokens));

  defineCommand(token, "revoke", {
    summary: "revoke tokens",
    description: "Revoke tokens by their ids, or all tokens of a user. They are revoked when the command ends.",
    examples: { "flowgate token revoke 4fGx0aQz": "one token", "flowgate token revoke --user ada": "all of a user" },
  })
    .argument("[ids...]", "ids of tokens, as in token list")
    .option("-u, --user <name>", "revoke all tokens of this user")
    .option("--all", "revoke all tokens of all users, this login included")
    .option("-y, --yes", "do not ask")
    .action(clientAction(async () => (await load()).revokeTokens));
}

function defineAudit(root: Command): void {
  const audit = defineCommand(root, "audit", {
    summary: "read and check the audit log",
    description: "Read and check the audit log: who changed what, who signed in, and who was refused.",
    examples: {
      "flowgate audit list --since 24h": "what happened today",
      "flowgate audit verify": "check that nothing was changed",
    },
  });

  defineCommand(audit, "list", {
    summary: "list entries, newest first",
    description: "List entries of the audit log, newest first.",
    examples: {
      "flowgate audit list --kind deployment --since 7d": "the deployments of a week",
      "flowgate audit list --user ada --limit 1000 -o json": "for programs",
    },
  })
    .alias("ls")
    .option("--kind <kinds...>", "only these kinds, such as deployment or sign_in_failed")
    .option("-u, --user <name>", "only entries of this user")
    .option(
      "--since <time>",
      "only entries since this time, or within a duration before now, such as 24h or 7d",
      parseTime,
    )
    .option("--until <time>", "only entries before this time", parseTime)
    .option("--limit <number>", "list at most this many", parseLimit, 50)
    .action(clientAction(async () => (await import("../administration/audit.ts")).listAudit));

  defineCommand(audit, "verify", {
    summary: "check that the audit log was not changed",
    description: "Let the server check the audit log, and print its head.",
    examples: {
      "flowgate audit verify": "at the server",
      "flowgate audit verify 1204:5f0c…": "and that an earlier head is still part of it",
    },
  })
    .argument("[head]", "a head that was printed earlier, which must still be in the log")
    .action(clientAction(async () => (await import("../administration/audit.ts")).verifyAtServer));
}

const load = () => import("../administration/tokens.ts");
