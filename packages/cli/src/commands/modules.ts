import type { Command } from "commander";
import { clientAction } from "../client/action.ts";
import { defineCommand } from "../define-command.ts";

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

  defineCommand(module, "list", {
    summary: "list the modules",
    description:
      "List the installed modules with their exact versions, node types, and how many nodes of the active flows have these.",
    examples: { "flowgate module list": "at the server" },
  })
    .alias("ls")
    .action(clientAction(async () => (await load()).listModules));

  defineCommand(module, "install", {
    summary: "install modules, or other versions of them",
    description:
      "Install modules, or other versions of those that are installed. The flows go on if modules are only added, and are started again otherwise.",
    details: installDetails,
    examples: {
      "flowgate module install node-red-contrib-cron-plus": "the newest version",
      "flowgate module install @flowfuse/node-red-dashboard@1.28.0": "this version",
      "flowgate module install ./node-red-contrib-own-1.0.0.tgz": "a package that npm pack has made",
    },
  })
    .alias("add")
    .argument(
      "<module...>",
      "name of a package, with a version, range or tag if it should not be the newest; or the path of a .tgz file",
    )
    .action(clientAction(async () => (await load()).installModules));

  defineCommand(module, "remove", {
    summary: "remove modules",
    description: "Remove modules. The flows are started again.",
    examples: { "flowgate module remove node-red-contrib-cron-plus": "at the server" },
  })
    .alias("rm")
    .argument("<name...>", "name of a module")
    .option("--force", "also if the active flows have nodes of them")
    .action(clientAction(async () => (await load()).removeModules));

  defineCommand(module, "update", {
    summary: "install other versions of modules",
    description: "Install the newest versions of modules, or those after an @. The flows are started again.",
    examples: {
      "flowgate module update node-red-contrib-cron-plus": "the newest version",
      "flowgate module update @flowfuse/node-red-dashboard@1.28.0": "this version",
    },
  })
    .argument("<module...>", "name of a module, with a version, range or tag if it should not be the newest")
    .action(clientAction(async () => (await load()).updateModules));

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
    .action(clientAction(async () => (await load()).enableModules));

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
    .action(clientAction(async () => (await load()).disableModules));
}

const wholeDetails = `
The server does it, as the modules of its configuration say, and starts the flows again if that is necessary; with several replicas, the one that
receives the call.`;

const installDetails = `
Packages come from a registry, with exact versions. Their install scripts are not run unless the configuration of the server names
them in modules.scripts. If anything fails, the modules remain as they were.`;

const load = () => import("../administration/modules.ts");
