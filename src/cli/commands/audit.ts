import type { Command } from "commander";
import type { Program } from "../program.ts";
import { addSettings, readFlags } from "../service/flags.ts";
import { storeSettings } from "./store.ts";

export function defineAudit(root: Command, { verifyAudit }: Program): void {
  const audit = root
    .command("audit")
    .summary("read and check the audit log")
    .description("Read and check the audit log.");
  const verify = audit
    .command("verify")
    .summary("check that the audit log was not changed")
    .description("Check the audit log, also while the service runs, and print its head.")
    .argument("[head]", "a head that was printed earlier, which must still be in the log")
    .action(async (head: string | undefined) => {
      const { verifyAuditCommand } = await import("../service/verify-audit.ts");
      const { readOptions } = await import("../service/read-options.ts");
      await verifyAuditCommand(head, await readOptions(readFlags(verify), process.env), verifyAudit);
    });
  addSettings(verify, storeSettings);
}
