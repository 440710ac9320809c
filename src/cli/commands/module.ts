import type { Command } from "commander";
import { withoutServer } from "../client/connection-options.ts";
import { examples } from "../examples.ts";
import { outputAction } from "../output/output-action.ts";
import { addSettings, readFlags } from "../service/flags.ts";
import type { InstallFlags } from "../service/modules.ts";

const details = `
Installs with the npm of this machine, as the user of the service, into its data directory. Neither the configuration of npm in the
environment and the home directory nor files of flows are read: --npmrc names a file with registries, tokens, proxies and
certificates. HTTP_PROXY, HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS are used. Scripts of packages are not run unless
--allow-scripts names the package, and packages come from a registry, with exact versions. If anything fails, the modules remain as
they were.`;

export function defineModule(root: Command): void {
  const module = withoutServer(root.command("module"))
    .summary("install modules for flows")
    .description("Install and remove modules: npm packages with nodes for flows.")
    .addHelpText(
      "after",
      examples(["flowgate module install node-red-contrib-cron-plus", "then flowgate runtime restart"]),
    );

  const list = withoutServer(module.command("list"), { output: true })
    .alias("ls")
    .summary("list the modules")
    .description("List the modules that were installed, with their exact versions.");
  addSettings(list, ["data-dir"])
    .addHelpText("after", examples(["flowgate module list --data-dir /var/lib/flowgate", "those of this service"]))
    .action(outputAction(async (output) => (await load()).listModules(output, await readDataDir(list))));

  const install = withoutServer(module.command("install"))
    .alias("add")
    .summary("install modules, or other versions of them")
    .description(
      "Install modules, or other versions of those that are installed. The next start of the runtime loads them.",
    )
    .argument("<module...>", "name of a package, with a version, range or tag if it should not be the newest")
    .option("--registry <url>", "registry of npm to install from")
    .option("--npmrc <path>", "configuration file of npm to use")
    .option("--allow-scripts <name>", "run the install scripts of this package; may be repeated", collect)
    .option("--allow-git", "also install what packages require from git repositories and URLs");
  addSettings(install, ["data-dir"])
    .addHelpText(
      "after",
      `${details}\n${examples(
        ["flowgate module install node-red-contrib-cron-plus", "the newest version"],
        ["flowgate module install @flowfuse/node-red-dashboard@1.28.0", "this version"],
        [
          "flowgate module install node-red-node-serialport --allow-scripts @serialport/bindings-cpp",
          "with a native addon",
        ],
      )}`,
    )
    .action(async (specs: readonly string[], flags: InstallFlags) =>
      (await load()).installModules(specs, flags, await readDataDir(install)),
    );

  const remove = withoutServer(module.command("remove"))
    .alias("rm")
    .summary("remove modules")
    .description("Remove modules. The next start of the runtime is without them.")
    .argument("<name...>", "name of a module");
  addSettings(remove, ["data-dir"])
    .addHelpText(
      "after",
      examples(["flowgate module remove node-red-contrib-cron-plus", "then flowgate runtime restart"]),
    )
    .action(async (names: readonly string[]) => (await load()).removeModules(names, await readDataDir(remove)));
}

const load = () => import("../service/modules.ts");

async function readDataDir(command: Command): Promise<string> {
  const { readOptions } = await import("../service/read-options.ts");
  const flags = [...readFlags(command)].filter(([name]) => name === "config" || name === "data-dir");
  return (await readOptions(new Map(flags), process.env)).dataDir;
}

function collect(name: string, names: readonly string[] = []): readonly string[] {
  return [...names, name];
}
