import { type Command, Option } from "commander";
import { clientAction } from "../client/action.ts";
import { UsageFailure } from "../failure.ts";
import { settings } from "../service/option-flags.ts";
import { defineCommand } from "./define-command.ts";

export function defineControlCommands(root: Command): void {
  const start = defineCommand(root, "start", {
    summary: "start the flows after they were stopped",
    description:
      "Start the active flows of a running service after flowgate stop, on all replicas. Also leaves safe mode. The exit code is 4 if they " +
      "do not run then. flowgate serve starts the service itself.",
    examples: { "flowgate start": "the flows of the current server", "flowgate serve": "start the service itself" },
  });
  rejectServiceFlags(start).action(clientAction(async () => (await import("../administration/runtime.ts")).startFlows));

  defineCommand(root, "stop", {
    summary: "stop the flows",
    description:
      "Stop the flows of a running service, on all replicas. They remain stopped until flowgate start, also after deployments and restarts of " +
      "the service, which itself goes on.",
    examples: {
      "flowgate stop": "ask in a terminal, and stop all flows",
      "flowgate stop --yes": "without a question",
      "flowgate flow disable Invoices": "stop the nodes of one tab only",
    },
  })
    .option("-y, --yes", "do not ask")
    .action(clientAction(async () => (await import("../administration/runtime.ts")).stopFlows));
}

/** Who wants to start the service learns how. */
function rejectServiceFlags(command: Command): Command {
  for (const { flag, hint } of [{ flag: "config", hint: "path" }, ...settings]) {
    command.addOption(new Option(`--${flag} <${hint}>`).hideHelp());
  }
  return command.hook("preAction", () => {
    const given = command.options.find(
      (option) => option.hidden && command.getOptionValueSource(option.attributeName()) === "cli",
    );
    if (given !== undefined) {
      throw new UsageFailure(
        `${given.long ?? given.flags} is a flag of the service: start it with flowgate serve. flowgate start starts the flows of a service that runs.`,
      );
    }
  });
}
