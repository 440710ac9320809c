import type { Command } from "commander";
import { clientAction, outputAction } from "../client/action.ts";
import { assertNoServer } from "../client/connection-flags.ts";
import type { InstallFlags } from "../service/modules.ts";
import { addSettings, readFlags } from "../service/option-flags.ts";
import { defineCommand } from "./define-command.ts";

export function defineModuleCommands(root: Command): void {
  const module = defineCommand(root, "module", {
    summary: "list and install modules for flows",
    description: "List, install and remove modules: npm packages with nodes for flows.",
    examples: {
      "flowgate module list": "what is installed at the server, and what the flows lack",
      "flowgate module install node-red-contrib-cron-plus": "then flowgate runtime restart",
    },
  });

  const list = defineCommand(module, "list", {
    summary: "list the modules",
    description:
      "List the installed modules with their exact versions, node types, and how many nodes of the active flows have these. With --config or " +
      "--data-dir, lists what is in this data directory, without the server.",
    examples: {
      "flowgate module list": "at the server",
      "flowgate module list --data-dir /var/lib/flowgate": "without the server",
    },
  }).alias("ls");
  addSettings(list, ["data-dir"]).action(async (_flags: unknown, command: Command) => {
    if (readFlags(list).size === 0) {
      return clientAction(async () => (await import("../administration/modules.ts")).listModules)(command);
    }
    assertNoServer(list, noServer);
    return outputAction(async () => {
      const { listModules } = await load();
      return async (output) => listModules(output, await readDataDir(list));
    })(command);
  });

  const install = defineCommand(module, "install", {
    summary: "install modules, or other versions of them",
    description:
      "Install modules, or other versions of those that are installed. The next start of the runtime loads them.",
    details: installDetails,
    examples: {
      "flowgate module install node-red-contrib-cron-plus": "the newest version",
      "flowgate module install @flowfuse/node-red-dashboard@1.28.0": "this version",
      "flowgate module install node-red-node-serialport --allow-scripts @serialport/bindings-cpp":
        "with a native addon",
    },
    connects: false,
  })
    .alias("add")
    .argument("<module...>", "name of a package, with a version, range or tag if it should not be the newest")
    .option("--registry <url>", "registry of npm to install from")
    .option("--npmrc <path>", "configuration file of npm to use")
    .option("--allow-scripts <name>", "run the install scripts of this package; may be repeated", collect)
    .option("--allow-git", "also install what packages require from git repositories and URLs");
  addSettings(install, ["data-dir"]).action(async (specs: readonly string[], flags: InstallFlags) =>
    (await load()).installModules(specs, flags, await readDataDir(install)),
  );

  const remove = defineCommand(module, "remove", {
    summary: "remove modules",
    description: "Remove modules. The next start of the runtime is without them.",
    examples: { "flowgate module remove node-red-contrib-cron-plus": "then flowgate runtime restart" },
    connects: false,
  })
    .alias("rm")
    .argument("<name...>", "name of a module");
  addSettings(remove, ["data-dir"]).action(async (names: readonly string[]) =>
    (await load()).removeModules(names, await readDataDir(remove)),
  );
}

const installDetails = `
Installs with the npm of this machine, as the user of the service, into its data directory. Neither the configuration of npm in the
environment and the home directory nor files of flows are read: --npmrc names a file with registries, tokens, proxies and
certificates. HTTP_PROXY, HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS are used. Scripts of packages are not run unless
--allow-scripts names the package, and packages come from a registry, with exact versions. If anything fails, the modules remain as
they were.`;

const noServer =
  "The modules are either those of a server or those in a data directory: use --server or --context, or else --config or --data-dir.";

const load = () => import("../service/modules.ts");

async function readDataDir(command: Command): Promise<string> {
  const { readOptions } = await import("../service/read-options.ts");
  const flags = [...readFlags(command)].filter(([name]) => name === "config" || name === "data-dir");
  return (await readOptions(new Map(flags), process.env)).dataDir;
}

function collect(name: string, names: readonly string[] = []): readonly string[] {
  return [...names, name];
}
