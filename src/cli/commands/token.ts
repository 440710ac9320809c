import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import { parseDuration, parseLimit } from "../parse-values.ts";
import type { CreateFlags, ListFlags, RevokeFlags } from "../tokens/tokens.ts";

export function defineToken(root: Command): void {
  const token = root
    .command("token")
    .summary("create, list and revoke access tokens")
    .description("Create, list and revoke access tokens.")
    .addHelpText(
      "after",
      examples(
        ["flowgate token create ci --scope 'flows.read flows.write revisions.read settings.read'", "for deployments"],
        ["flowgate token list", "who has which tokens"],
        ["flowgate token revoke 4fGx0aQz", "end one of them"],
      ),
    );

  token
    .command("create")
    .summary("create a token for a program")
    .description(
      "Create a token of your user for a program. Only the token is printed on stdout. It can't be read again. A program that deploys needs " +
        "flows.read and flows.write, revisions.read for --rev and the reasons of failures, and settings.read for flowgate status.",
    )
    .argument("<name>", "what the token is for")
    .option("--scope <permissions>", "permissions, separated by spaces (default: those of this login)")
    .option("--expires-in <duration>", "lifetime, such as 30d or 12h (default: that of a login)", parseDuration)
    .addHelpText(
      "after",
      examples(
        [
          "flowgate token create ci --scope 'flows.read flows.write revisions.read settings.read' --expires-in 30d",
          "for deployments",
        ],
        ["FLOWGATE_TOKEN=$(flowgate token create backup --scope read)", "keep it in a variable"],
      ),
    )
    .action(
      clientAction(async (context, name: string, flags: CreateFlags) =>
        (await load()).createToken(context, name, flags),
      ),
    );

  token
    .command("list")
    .alias("ls")
    .summary("list tokens")
    .description("List the tokens that have not expired, newest first. The tokens themselves are not stored anywhere.")
    .option("-u, --user <name>", "only tokens of this user")
    .option("--limit <number>", "list at most this many", parseLimit, 100)
    .addHelpText("after", examples(["flowgate token list --user ci", "of one user"]))
    .action(clientAction(async (context, flags: ListFlags) => (await load()).listTokens(context, flags)));

  token
    .command("revoke")
    .summary("revoke tokens")
    .description("Revoke tokens by their ids, or all tokens of a user. They are revoked when the command ends.")
    .argument("[ids...]", "ids of tokens, as in token list")
    .option("-u, --user <name>", "revoke all tokens of this user")
    .option("--all", "revoke all tokens of all users, this login included")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      examples(["flowgate token revoke 4fGx0aQz", "one token"], ["flowgate token revoke --user ada", "all of a user"]),
    )
    .action(
      clientAction(async (context, ids: readonly string[], flags: RevokeFlags) =>
        (await load()).revokeTokens(context, ids, flags),
      ),
    );
}

const load = () => import("../tokens/tokens.ts");
