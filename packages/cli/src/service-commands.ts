import { type Command, Option } from "commander";
import { runsLocally } from "./client/action.ts";
import { addHelp } from "./define-command.ts";
import { CliFailure } from "./failure.ts";

/** The commands that the package of the service adds. */
export interface ServiceCommands {
  /** Defines commands, the default `serve` among them. With `runsLocally`, commands of the client work without a server too. */
  readonly define: (root: Command) => void;
  /** Returns what the service would not accept of a configuration, by the paths of the values. */
  readonly checkConfiguration: (configuration: object) => Promise<readonly ConfigurationProblem[]>;
}

type ConfigurationProblem = { readonly path: readonly (string | number)[]; readonly message: string };

/** The command at this path, such as `audit verify`. */
export function findCommand(root: Command, path: string): Command {
  return path.split(" ").reduce((parent, name) => {
    const found = parent.commands.find((each) => each.name() === name);
    if (found === undefined) {
      throw new TypeError(`there is no command ${path}`);
    }
    return found;
  }, root);
}

const commands = ["serve", "backup", "restore", "migrate", "credentials", "hash-password"];

/** Flags with which commands work in a data directory, without a server. */
const localFlags = {
  "audit verify": ["--config", "--data-dir", "--store"],
  "module list": ["--config", "--data-dir"],
  "module install": ["--config", "--data-dir", "--registry", "--npmrc", "--allow-scripts", "--allow-git"],
  "module remove": ["--config", "--data-dir"],
};

/** In place of the commands of the service where only the client is installed: they say what to install. */
export const absentService: ServiceCommands = {
  define(root) {
    for (const name of commands) {
      root
        .command(name, { hidden: true })
        .helpOption(false)
        .allowUnknownOption()
        .allowExcessArguments()
        .action(() => {
          throw new CliFailure(`flowgate ${name} ${explanation}`);
        });
    }
    for (const [path, flags] of Object.entries(localFlags)) {
      const command = findCommand(root, path);
      flags.forEach((flag) => command.addOption(new Option(`${flag} [value]`).hideHelp()));
      runsLocally(command, () => {
        const given = flags.find((flag) => isGiven(command, flag));
        if (given !== undefined) {
          throw new CliFailure(`${given} ${explanation}`);
        }
        return undefined;
      });
    }
    const list = `${commands.slice(0, -1).join(", ")} and ${commands.at(-1)}`;
    addHelp(root, { details: `\n${list} come with the service:\n  ${installation}`, examples: {} });
  },
  checkConfiguration: async () => [],
};

const installation = "npm uninstall -g @flowgate/cli && npm install -g flowgate";
const explanation = `comes with the service, whose package has all commands: ${installation}`;

/** True if a flag of the command was given. */
export function isGiven(command: Command, flag: string): boolean {
  const option = command.options.find(({ long }) => long === flag);
  return option !== undefined && command.getOptionValueSource(option.attributeName()) === "cli";
}
