import type { Command } from "commander";
import type { AuditFlags } from "../administration/audit.ts";
import type { RestartFlags } from "../administration/runtime.ts";
import type { CreateFlags, ListFlags, RevokeFlags } from "../administration/tokens.ts";
import { clientAction } from "../client/action.ts";
import { usageFailure } from "../failure.ts";
import { examples } from "../help.ts";
import type { OutputFormat } from "../output/output.ts";
import type { Program } from "../service/program.ts";
import { addSettings, readFlags } from "../service/settings.ts";
import { storeSettings } from "./service.ts";
import { parseDuration, parseLimit, parseTime } from "./shared-flags.ts";

export function defineRuntime(root: Command): void {
  const runtime = root
    .command("runtime")
    .summary("control the flow runtime")
    .description("Control the flow runtime, the process that runs the flows.")
    .addHelpText("after", examples(["flowgate runtime restart", "start the flows in a new process"]));

  runtime
    .command("restart")
    .summary("start the flows in a new process")
    .description(
      "Start the active flows in a new process, which ends all code of the previous one. Also leaves safe mode. The exit " +
        "code is 4 if the flows do not run then.",
    )
    .option(
      "--clear-files",
      "remove all files in the runtime's folder, such as those of flows that have filled the disk",
    )
    .option("-y, --yes", "remove them without a question")
    .addHelpText(
      "after",
      examples(
        ["flowgate runtime restart", "the current server"],
        ["flowgate runtime restart --clear-files", "after a correction of flows that have filled the disk"],
      ),
    )
    .action(
      clientAction(async (context, flags: RestartFlags) => {
        const { restartRuntime } = await import("../administration/runtime.ts");
        await restartRuntime(context, flags);
      }),
    );
}

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

const load = () => import("../administration/tokens.ts");

export function defineAudit(root: Command, { verifyAudit }: Program): void {
  const audit = root
    .command("audit")
    .summary("read and check the audit log")
    .description("Read and check the audit log: who changed what, who signed in, and who was refused.")
    .addHelpText(
      "after",
      examples(
        ["flowgate audit list --since 24h", "what happened today"],
        ["flowgate audit verify", "check that nothing was changed"],
      ),
    );

  audit
    .command("list")
    .alias("ls")
    .summary("list entries, newest first")
    .description("List entries of the audit log, newest first.")
    .option("--kind <kinds...>", "only these kinds, such as deployment or sign_in_failed")
    .option("-u, --user <name>", "only entries of this user")
    .option(
      "--since <time>",
      "only entries since this time, or within a duration before now, such as 24h or 7d",
      parseTime,
    )
    .option("--until <time>", "only entries before this time", parseTime)
    .option("--limit <number>", "list at most this many", parseLimit, 50)
    .addHelpText(
      "after",
      examples(
        ["flowgate audit list --kind deployment --since 7d", "the deployments of a week"],
        ["flowgate audit list --user ada --limit 1000 -o json", "for programs"],
      ),
    )
    .action(
      clientAction(async (context, flags: AuditFlags) => {
        const { listAudit } = await import("../administration/audit.ts");
        await listAudit(context, flags);
      }),
    );

  const verify = audit
    .command("verify")
    .summary("check that the audit log was not changed")
    .description(
      "Check the audit log, and print its head. The server does it; with --config, --data-dir or --store, this command " +
        "opens the store itself, also while the service runs.",
    )
    .argument("[head]", "a head that was printed earlier, which must still be in the log");
  addSettings(verify, storeSettings)
    .addHelpText(
      "after",
      examples(
        ["flowgate audit verify", "at the server"],
        ["flowgate audit verify 1204:5f0c…", "and that an earlier head is still part of it"],
        ["flowgate audit verify --data-dir /var/lib/flowgate", "without the server"],
      ),
    )
    .action(async (head: string | undefined, ...rest: [unknown, Command]) => {
      const local = readFlags(verify);
      if (local.size > 0) {
        assertNoServer(root);
        const { verifyAuditCommand } = await import("../service/store.ts");
        const { readOptions } = await import("../service/read-options.ts");
        const { createOutput } = await import("../output/output.ts");
        const output = await createOutput(root.opts<{ output?: OutputFormat }>().output);
        const options = await readOptions(local, process.env);
        await verifyAuditCommand({ head, options, verify: verifyAudit, output });
        return;
      }
      await clientAction(async (context) => {
        const { verifyAtServer } = await import("../administration/audit.ts");
        await verifyAtServer(context, head);
      })(...(rest.slice(-1) as [Command]));
    });
}

function assertNoServer(root: Command): void {
  const { server, context } = root.opts<{ server?: string; context?: string }>();
  if (server !== undefined || context !== undefined) {
    throw usageFailure(
      "audit verify checks the log either at a server or in a store: use --server or --context, or else --config, --data-dir or --store.",
      "flowgate audit verify",
    );
  }
}
