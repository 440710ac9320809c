import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import { usageFailure } from "../failure.ts";
import type { AuditFlags } from "../audit/audit.ts";
import type { OutputFormat } from "../output/output-format.ts";
import { parseLimit, parseTime } from "../parse-values.ts";
import type { Program } from "../service/program.ts";
import { addSettings, readFlags } from "../service/flags.ts";
import { storeSettings } from "./store.ts";

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
        const { listAudit } = await import("../audit/audit.ts");
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
        const { verifyAuditCommand } = await import("../service/verify-audit.ts");
        const { readOptions } = await import("../service/read-options.ts");
        const { createOutput } = await import("../output/output.ts");
        const output = await createOutput(root.opts<{ output?: OutputFormat }>().output);
        const options = await readOptions(local, process.env);
        await verifyAuditCommand({ head, options, verify: verifyAudit, output });
        return;
      }
      await clientAction(async (context) => {
        const { verifyAtServer } = await import("../audit/audit.ts");
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
