import { Command } from "commander";
import { defineAudit } from "./commands/audit.ts";
import { defineStoreCommands } from "./commands/store.ts";
import { defineHashPassword } from "./commands/hash-password.ts";
import { defineHistory } from "./commands/history.ts";
import { definePin } from "./commands/pin.ts";
import { defineRollback } from "./commands/rollback.ts";
import { defineServe } from "./commands/serve.ts";
import { defineShow } from "./commands/show.ts";
import { defineStatus } from "./commands/status.ts";
import { defineUndo } from "./commands/undo.ts";
import { defineVersion } from "./commands/version.ts";
import { addConnectionOptions } from "./client/connection-options.ts";
import { examples } from "./examples.ts";
import { helpConfiguration, helpOutput } from "./help.ts";
import type { Program } from "./program.ts";

/** All commands of `flowgate`. Their actions load what they need. */
export function createCommandLine(program: Program): Command {
  const root = new Command("flowgate")
    .description("Deploys and runs flows: the service, and the client to administer it.")
    .usage("[command] [flags]")
    .version(program.version(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print help for a command")
    .helpCommand("help [command]", "print help for a command")
    .configureHelp(helpConfiguration)
    // Errors are thrown, and printed by runCommandLine.
    .exitOverride()
    .configureOutput({ ...helpOutput, outputError: () => {} });
  addConnectionOptions(root);

  root.commandsGroup("Look:");
  defineStatus(root);

  root.commandsGroup("History:");
  defineHistory(root);
  defineShow(root);
  defineUndo(root);
  defineRollback(root);
  definePin(root);

  root.commandsGroup("Administer:");
  defineAudit(root, program);

  root.commandsGroup("Run the service:");
  defineServe(root, program);
  defineStoreCommands(root, program);
  defineHashPassword(root);

  root.commandsGroup("Other:");
  defineVersion(root, program);
  return root.addHelpText(
    "after",
    examples(
      ["flowgate", "start the service on http://127.0.0.1:8080"],
      ["flowgate status", "ask it what runs"],
      ["flowgate serve --help", "all flags of the service"],
    ),
  );
}
