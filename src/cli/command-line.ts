import { Command } from "commander";
import { defineAudit, defineRuntime, defineToken } from "./commands/administer.ts";
import { defineHashPassword, defineModule, defineServe, defineStoreCommands } from "./commands/service.ts";
import {
  defineDeploy,
  defineDiff,
  defineExport,
  defineImport,
  definePlan,
  defineSync,
  defineValidate,
} from "./commands/deploy.ts";
import { defineHistory, definePin, defineRollback, defineShow, defineUndo } from "./commands/history.ts";
import { defineCompletion, defineVersion } from "./commands/other.ts";
import { defineContext, defineLogin, defineLogout, defineWhoami } from "./commands/connect.ts";
import { defineGet, defineStatus } from "./commands/inspect.ts";
import { addConnectionOptions } from "./client/connection-flags.ts";
import { examples, helpConfiguration, helpOutput } from "./help.ts";
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
