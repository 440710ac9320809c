import { Command, Help, type HelpConfiguration, type OutputConfiguration } from "commander";
import { addConnectionFlags, globalOptionsOf } from "./client/connection-flags.ts";
import { defineAdministerCommands } from "./commands/administer.ts";
import { defineConnectCommands } from "./commands/connect.ts";
import { addHelp, title } from "./define-command.ts";
import { defineControlCommands } from "./commands/control.ts";
import { defineDeployCommands } from "./commands/deploy.ts";
import { defineHistoryCommands } from "./commands/history.ts";
import { defineInspectCommands } from "./commands/inspect.ts";
import { defineOtherCommands } from "./commands/other.ts";
import { defineProposalCommands } from "./commands/proposals.ts";
import { defineModuleCommands } from "./commands/modules.ts";
import { absentService, type ServiceCommands } from "./service-commands.ts";

export type CommandLineOptions = {
  readonly version: string;
  /** By default, these commands say what to install. */
  readonly service?: ServiceCommands;
};

/** All commands of `flowgate`. Their actions load what they need. */
export function createCommandLine({ version, service = absentService }: CommandLineOptions): Command {
  const root = new Command("flowgate")
    .description("Deploys, observes and administers the flows of a server.")
    .usage("[command] [flags]")
    .version(version, "-V, --version", "print the version")
    .helpOption("-h, --help", "print help for a command")
    .configureHelp(helpConfiguration)
    // Errors are thrown, and printed by runCommandLine.
    .exitOverride()
    .configureOutput({ ...helpOutput, outputError: () => {} });
  addHelp(root, {
    examples: {
      "flowgate login --server https://flows.example.com": "log in to a server",
      "flowgate status": "see what runs",
    },
  });
  addConnectionFlags(root);
  defineConnectCommands(root.commandsGroup("Connect:"));
  defineInspectCommands(root.commandsGroup("Inspect:"));
  defineDeployCommands(root.commandsGroup("Deploy:"), service);
  defineProposalCommands(root.commandsGroup("Propose:"));
  defineHistoryCommands(root.commandsGroup("History:"));
  defineControlCommands(root.commandsGroup("Control:"));
  defineModuleCommands(root.commandsGroup("Administer:"));
  defineAdministerCommands(root);
  service.define(root.commandsGroup("Run the service:"));
  defineOtherCommands(root.commandsGroup("Other:"), version);
  root.helpCommand("help [command]", "print help for a command");
  return root;
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
