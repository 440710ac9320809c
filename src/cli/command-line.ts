import { Command } from "commander";
import { defineAudit } from "./commands/audit.ts";
import { defineStoreCommands } from "./commands/store.ts";
import { defineDeploy } from "./commands/deploy.ts";
import { defineDiff } from "./commands/diff.ts";
import { defineExport } from "./commands/export.ts";
import { defineHashPassword } from "./commands/hash-password.ts";
import { defineHistory } from "./commands/history.ts";
import { defineImport } from "./commands/import.ts";
import { defineModule } from "./commands/module.ts";
import { definePin } from "./commands/pin.ts";
import { definePlan } from "./commands/plan.ts";
import { defineRollback } from "./commands/rollback.ts";
import { defineCompletion } from "./commands/completion.ts";
import { defineContext } from "./commands/context.ts";
import { defineGet } from "./commands/get.ts";
import { defineLogin } from "./commands/login.ts";
import { defineLogout } from "./commands/logout.ts";
import { defineRuntime } from "./commands/runtime.ts";
import { defineServe } from "./commands/serve.ts";
import { defineShow } from "./commands/show.ts";
import { defineStatus } from "./commands/status.ts";
import { defineSync } from "./commands/sync.ts";
import { defineUndo } from "./commands/undo.ts";
import { defineValidate } from "./commands/validate.ts";
import { defineToken } from "./commands/token.ts";
import { defineVersion } from "./commands/version.ts";
import { defineWhoami } from "./commands/whoami.ts";
import { addConnectionOptions } from "./client/connection-options.ts";
import { examples } from "./examples.ts";
import { helpConfiguration, helpOutput } from "./help.ts";
import type { Program } from "./service/program.ts";

/** All commands of `flowgate`. Their actions load what they need. */
export function createCommandLine(program: Program): Command {
  const root = new Command("flowgate")
    .description(
      "Deploys and runs flows: the service, and the client to administer it. Without a command, the service is started.",
    )
    .usage("[command] [flags]")
    .version(program.version(), "-V, --version", "print the version")
    .helpOption("-h, --help", "print help for a command")
    .configureHelp(helpConfiguration)
    // Errors are thrown, and printed by runCommandLine.
    .exitOverride()
    .configureOutput({ ...helpOutput, outputError: () => {} });
  addConnectionOptions(root);

  root.commandsGroup("Connect:");
  defineLogin(root);
  defineLogout(root);
  defineWhoami(root);
  defineContext(root);

  root.commandsGroup("Inspect:");
  defineStatus(root);
  defineGet(root);

  root.commandsGroup("Deploy:");
  defineValidate(root);
  defineDiff(root);
  definePlan(root);
  defineDeploy(root);
  defineExport(root);
  defineSync(root);
  defineImport(root);

  root.commandsGroup("History:");
  defineHistory(root);
  defineShow(root);
  defineUndo(root);
  defineRollback(root);
  definePin(root);

  root.commandsGroup("Administer:");
  defineRuntime(root);
  defineToken(root);
  defineAudit(root, program);

  root.commandsGroup("Run the service:");
  defineServe(root, program);
  defineStoreCommands(root, program);
  defineModule(root);
  defineHashPassword(root);

  root.commandsGroup("Other:");
  defineCompletion(root);
  defineVersion(root, program);
  root.helpCommand("help [command]", "print help for a command");
  return root.addHelpText(
    "after",
    examples(
      ["flowgate", "start the service on http://127.0.0.1:8080"],
      ["flowgate login --server https://flows.example.com", "log in to a server"],
      ["flowgate status", "see what runs"],
      ["flowgate serve --help", "all flags of the service"],
    ),
  );
}
