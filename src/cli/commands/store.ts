import type { Command } from "commander";
import { withoutServer } from "../client/connection-options.ts";
import { usageFailure } from "../failure.ts";
import { examples } from "../examples.ts";
import type { Program } from "../service/program.ts";
import { addSettings, readFlags } from "../service/flags.ts";

/** The settings of commands that open the store only. */
export const storeSettings = ["data-dir", "store"];

export function defineStoreCommands(root: Command, { copyStore, migrateStore }: Program): void {
  const copies = [
    ["backup", "copy the store to a file", "Copy the store to a new file, also while the service runs."],
    ["restore", "restore the store from a copy", "Restore the store from a copy of it. The service must not run."],
  ] as const;
  for (const [kind, summary, description] of copies) {
    const command = withoutServer(root.command(kind))
      .summary(summary)
      .description(description)
      .argument("<file>", "path of the copy")
      .action(async (file: string) => {
        const { readOptions } = await import("../service/read-options.ts");
        await copyStore(kind, file, await readOptions(readFlags(command), process.env));
      });
    addSettings(command, storeSettings).addHelpText(
      "after",
      examples([`flowgate ${kind} /backups/flowgate.db --config flowgate.yaml`, "the store of this configuration"]),
    );
  }

  const migrate = withoutServer(root.command("migrate"))
    .summary("copy the store to another one")
    .description(
      "Copy the store at the URL of --from to a new store at the URL of --to. No service may use either of them.",
    )
    .option("--from <url>", "store to copy (default: the configured one)")
    .option("--to <url>", "store to copy to (default: the configured one)")
    .action(async () => {
      const flags = readFlags(migrate);
      if (!flags.has("from") && !flags.has("to")) {
        throw usageFailure("migrate requires --from, --to or both: the URLs of the stores.", "flowgate migrate");
      }
      const { migrateCommand } = await import("../service/migrate.ts");
      await migrateCommand(flags, process.env, migrateStore);
    });
  addSettings(migrate, ["data-dir"]).addHelpText(
    "after",
    examples([
      "flowgate migrate --to postgres://flowgate@db/flowgate --config flowgate.yaml",
      "from SQLite to PostgreSQL",
    ]),
  );
}
