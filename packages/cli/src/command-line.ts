import { Command, Help, type HelpConfiguration, type OutputConfiguration } from "commander";
import { addConnectionFlags, globalOptionsOf } from "./client/connection-flags.ts";
import { defineAdministerCommands } from "./commands/administer.ts";
import { defineConnectCommands } from "./commands/connect.ts";
import { examples, title } from "./commands/define-command.ts";
import { defineControlCommands } from "./commands/control.ts";
import { defineDeployCommands } from "./commands/deploy.ts";
import { defineHistoryCommands } from "./commands/history.ts";
import { defineInspectCommands } from "./commands/inspect.ts";
import { defineOtherCommands } from "./commands/other.ts";
import { defineProposalCommands } from "./commands/proposals.ts";
import { defineServiceCommands } from "../../../src/cli/service-commands.ts";
import type { Program } from "../../../src/cli/program.ts";

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
  addConnectionFlags(root);
  defineConnectCommands(root.commandsGroup("Connect:"));
  defineInspectCommands(root.commandsGroup("Inspect:"));
  defineDeployCommands(root.commandsGroup("Deploy:"));
  defineProposalCommands(root.commandsGroup("Propose:"));
  defineHistoryCommands(root.commandsGroup("History:"));
  defineControlCommands(root.commandsGroup("Control:"));
  defineAdministerCommands(root.commandsGroup("Administer:"));
  defineServiceCommands(root.commandsGroup("Run the service:"), program);
  defineOtherCommands(root.commandsGroup("Other:"), program);
  root.helpCommand("help [command]", "print help for a command");
  return root.addHelpText(
    "after",
    examples({
      flowgate: "start the service on http://127.0.0.1:8080",
      "flowgate login --server https://flows.example.com": "log in to a server",
      "flowgate status": "see what runs",
      "flowgate serve --help": "all flags of the service",
    }),
  );
}

/** The words that name a command, such as `flowgate audit verify`. */
export function commandPath(command: Command): string {
  return command.parent === null ? command.name() : `${commandPath(command.parent)} ${command.name()}`;
}

/** Longer lines are hard to read. */
const maxWidth = 110;

/** How the help of all commands looks. Commander removes the styles where there are no colours. */
const helpConfiguration: HelpConfiguration = {
  showGlobalOptions: true,
  sortOptions: false,
  visibleOptions(this: Help, command: Command) {
    const options = Help.prototype.visibleOptions.call(this, command);
    // Those of the connection are in the help of each command that takes them.
    return command.parent === null ? options.filter((option) => /^--(help|version)$/.test(option.long ?? "")) : options;
  },
  visibleGlobalOptions: (command: Command) => (command.commands.length > 0 ? [] : globalOptionsOf(command)),
  visibleCommands(this: Help, command: Command) {
    const commands = Help.prototype.visibleCommands.call(this, command);
    return command.parent === null ? commands : commands.filter((each) => each.name() !== "help");
  },
  subcommandTerm(this: Help, command: Command) {
    const term = Help.prototype.subcommandTerm.call(this, command);
    return term.replace(/\|\S+/, "").replace(" [options]", "");
  },
  styleTitle: title,
};

const helpOutput: OutputConfiguration = {
  getOutHelpWidth: () => widthOf(process.stdout),
  getErrHelpWidth: () => widthOf(process.stderr),
};

function widthOf(stream: NodeJS.WriteStream): number {
  // Some terminals do not report their width.
  return stream.isTTY && stream.columns > 0 ? Math.min(stream.columns, maxWidth) : 80;
}
