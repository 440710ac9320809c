import type { Command } from "commander";
import { clientAction, outputAction } from "../client/action.ts";
import { assertNoServer } from "../client/connection-flags.ts";
import { UsageFailure } from "../failure.ts";
import type { InstallFlags } from "../../../../src/cli/modules.ts";
import { readFlags } from "../../../../src/cli/option-flags.ts";
import { defineCommand } from "./define-command.ts";

type ForceFlags = { readonly force?: boolean };

export function defineModuleCommands(root: Command): void {
  const module = defineCommand(root, "module", {
    summary: "list, install and remove modules for flows",
    description: "List, install, update, remove, enable and disable modules: npm packages with nodes for flows.",
    details: wholeDetails,
    examples: {
      "flowgate module list": "what is installed at the server, and what the flows lack",
      "flowgate module install node-red-contrib-cron-plus": "the newest version",
    },
  });
  defineList(module);
  defineInstall(module);
  defineRemove(module);

  defineCommand(module, "update", {
    summary: "install other versions of modules",
    description: "Install the newest versions of modules, or those after an @. The flows are started again.",
    examples: {
      "flowgate module update node-red-contrib-cron-plus": "the newest version",
      "flowgate module update @flowfuse/node-red-dashboard@1.28.0": "this version",
    },
  })
    .argument("<module...>", "name of a module, with a version, range or tag if it should not be the newest")
    .action(clientAction(async () => (await atServer()).updateModules));

  defineCommand(module, "enable", {
    summary: "load modules again that were disabled",
    description:
      "Load modules again that were disabled. The flows go on, and nodes that have waited for these are started.",
    examples: {
      "flowgate module enable node-red-contrib-cron-plus": "after module disable",
      "flowgate module enable node-red/exec": "one of Node-RED's own nodes",
    },
  })
    .argument("<name...>", "name of a module, or MODULE/SET for one of its sets of nodes")
    .action(clientAction(async () => (await atServer()).enableModules));

  defineCommand(module, "disable", {
    summary: "keep modules without loading them",
    description:
      "Keep modules installed without loading them. The flows go on; with --force, they are started again if they have nodes of them.",
    examples: {
      "flowgate module disable node-red-contrib-cron-plus": "until module enable",
      "flowgate module disable node-red/exec": "one of Node-RED's own nodes",
    },
  })
    .argument("<name...>", "name of a module, or MODULE/SET for one of its sets of nodes")
    .option("--force", "also if the active flows have nodes of them")
    .action(clientAction(async () => (await atServer()).disableModules));
}

function defineList(module: Command): void {
  const list = defineCommand(module, "list", {
    summary: "list the modules",
    description:
      "List the installed modules with their exact versions, node types, and how many nodes of the active flows have these.",
    examples: {
      "flowgate module list": "at the server",
      "flowgate module list --data-dir /var/lib/flowgate": "without the server",
    },
  }).alias("ls");
  addLocalFlags(list).action(async (_flags: unknown, command: Command) => {
    if (!isLocal(list)) {
      return clientAction(async () => (await atServer()).listModules)(command);
    }
    assertNoServer(list, noServer);
    return outputAction(async () => {
      const { listModules } = await local();
      return async (output) => listModules(output, await readLocalOptions(list));
    })(command);
  });
}

function defineInstall(module: Command): void {
  const install = defineCommand(module, "install", {
    summary: "install modules, or other versions of them",
    description:
      "Install modules, or other versions of those that are installed. The flows go on if modules are only added, and are started again otherwise.",
    details: installDetails,
    examples: {
      "flowgate module install node-red-contrib-cron-plus": "the newest version",
      "flowgate module install @flowfuse/node-red-dashboard@1.28.0": "this version",
      "flowgate module install ./node-red-contrib-own-1.0.0.tgz": "a package that npm pack has made",
      "flowgate module install node-red-node-serialport --data-dir data --allow-scripts @serialport/bindings-cpp":
        "with a native addon, without the server",
    },
  })
    .alias("add")
    .argument(
      "<module...>",
      "name of a package, with a version, range or tag if it should not be the newest; or the path of a .tgz file",
    )
    .option(
      "--registry <url>",
      "without the server: registry of npm to install from, or the path of a folder of packages",
    )
    .option("--npmrc <path>", "without the server: configuration file of npm to use")
    .option(
      "--allow-scripts <name>",
      "without the server: run the install scripts of this package; may be repeated",
      collect,
    )
    .option("--allow-git", "without the server: also install what packages require from git repositories and URLs");
  addLocalFlags(install).action(async (specs: readonly string[], flags: InstallFlags, command: Command) => {
    if (isLocal(install)) {
      assertNoServer(install, noServer);
      return (await local()).installModules(specs, flags, await readLocalOptions(install));
    }
    const flag = ["--registry", "--npmrc", "--allow-scripts", "--allow-git"].find((name) => isGiven(install, name));
    if (flag !== undefined) {
      throw new UsageFailure(
        `${flag} is for modules in a data directory: name it with --data-dir or --config. What a server does is in its configuration, in modules.`,
      );
    }
    return clientAction<[readonly string[]]>(async () => (await atServer()).installModules)(specs, command);
  });
}

function defineRemove(module: Command): void {
  const remove = defineCommand(module, "remove", {
    summary: "remove modules",
    description: "Remove modules. The flows are started again.",
    examples: { "flowgate module remove node-red-contrib-cron-plus": "at the server" },
  })
    .alias("rm")
    .argument("<name...>", "name of a module")
    .option("--force", "also if the active flows have nodes of them");
  addLocalFlags(remove).action(async (names: readonly string[], flags: ForceFlags, command: Command) => {
    if (isLocal(remove)) {
      assertNoServer(remove, noServer);
      return (await local()).removeModules(names, await readLocalOptions(remove));
    }
    return clientAction<[readonly string[], ForceFlags]>(async () => (await atServer()).removeModules)(
      names,
      flags,
      command,
    );
  });
}

const wholeDetails = `
The server does it, as the modules of its configuration say, and starts the flows again if that is necessary; with several replicas, the one that
receives the call. With --config or --data-dir, list, install and remove work in this data directory instead, without the server. The flows have the
changes after flowgate runtime restart.`;

const installDetails = `
Packages come from a registry, with exact versions. Their install scripts are not run unless the configuration of the server names
them in modules.scripts. If anything fails, the modules remain as they were.

With --config or --data-dir, this command installs with the npm of this machine, as the user of the service, into its data directory.
Neither the configuration of npm in the environment and the home directory nor files of flows are read: --npmrc names a file with
registries, tokens, proxies and certificates. HTTP_PROXY, HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS are used.`;

const noServer =
  "The modules are either those of a server or those in a data directory: use --server or --context, or else --config or --data-dir.";

const atServer = () => import("../administration/modules.ts");
const local = () => import("../../../../src/cli/modules.ts");

/** Without their environment variables, which do not make a command work without the server. */
function addLocalFlags(command: Command): Command {
  return command
    .option(
      "--config <path>",
      "work without the server: in the data directory of this configuration file, and as it says",
    )
    .option("--data-dir <path>", "work without the server: in this data directory");
}

/** Whether the command works in a data directory, instead of calling a server. */
function isLocal(command: Command): boolean {
  return isGiven(command, "--config") || isGiven(command, "--data-dir");
}

function isGiven(command: Command, flag: string): boolean {
  const option = command.options.find(({ long }) => long === flag);
  return option !== undefined && command.getOptionValueSource(option.attributeName()) === "cli";
}

async function readLocalOptions(command: Command) {
  const { readOptions } = await import("../../../../src/cli/read-options.ts");
  const flags = [...readFlags(command)].filter(([name]) => name === "config" || name === "data-dir");
  return readOptions(new Map(flags), process.env);
}

function collect(name: string, names: readonly string[] = []): readonly string[] {
  return [...names, name];
}
