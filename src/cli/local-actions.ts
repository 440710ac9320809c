import { addHelp, assertNoServer, findCommand, isGiven, outputAction, runsLocally, UsageFailure } from "@flowgate/cli";
import type { Command } from "commander";
import type { Options } from "../options/parse.ts";
import type { InstallFlags } from "./modules.ts";
import { addSettings, readFlags, storeSettings } from "./option-flags.ts";

/** Lets commands of the client work in a data directory, without a server. */
export function addLocalActions(root: Command): void {
  addAuditVerify(findCommand(root, "audit verify"));
  addHelp(findCommand(root, "module"), { details: moduleDetails, examples: {} });
  addModuleList(findCommand(root, "module list"));
  addModuleInstall(findCommand(root, "module install"));
  const remove = findCommand(root, "module remove");
  addDataDir(remove, async (options) => (await import("./modules.ts")).removeModules(remove.args, options));
}

function addAuditVerify(command: Command): void {
  addSettings(command, storeSettings);
  addHelp(command, {
    details: verifyDetails,
    examples: { "flowgate audit verify --data-dir /var/lib/flowgate": "without the server" },
  });
  runsLocally(command, () => {
    if (!["--config", "--data-dir", "--store"].some((flag) => isGiven(command, flag))) {
      return undefined;
    }
    assertNoServer(
      command,
      "audit verify checks the log either at a server or in a store: use --server, or else --config, --data-dir or --store.",
    );
    return async () => {
      const { verifyStore } = await import("./store.ts");
      await outputAction(async () => (output) => verifyStore(output, command.args[0], readFlags(command)))(command);
    };
  });
}

function addModuleList(command: Command): void {
  addHelp(command, { examples: { "flowgate module list --data-dir /var/lib/flowgate": "without the server" } });
  addDataDir(command, async (options) => {
    const { listModules } = await import("./modules.ts");
    await outputAction(async () => (output) => listModules(output, options))(command);
  });
}

function addModuleInstall(command: Command): void {
  const collect = (name: string, names: readonly string[] = []): readonly string[] => [...names, name];
  command
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
  addHelp(command, {
    details: installDetails,
    examples: {
      "flowgate module install node-red-node-serialport --data-dir data --allow-scripts @serialport/bindings-cpp":
        "with a native addon, without the server",
    },
  });
  addDataDir(
    command,
    async (options) =>
      (await import("./modules.ts")).installModules(command.args, command.opts<InstallFlags>(), options),
    ["--registry", "--npmrc", "--allow-scripts", "--allow-git"],
  );
}

/** Lets a command work in a data directory. `others` are its flags for that only. */
function addDataDir(command: Command, run: (options: Options) => Promise<void>, others: readonly string[] = []): void {
  // Without their environment variables, which do not make a command work without the server.
  command
    .option(
      "--config <path>",
      "work without the server: in the data directory of this configuration file, and as it says",
    )
    .option("--data-dir <path>", "work without the server: in this data directory");
  runsLocally(command, () => {
    if (["--config", "--data-dir"].some((flag) => isGiven(command, flag))) {
      assertNoServer(
        command,
        "The modules are either those of a server or those in a data directory: use --server, or else --config or --data-dir.",
      );
      return async () => {
        const { readOptions } = await import("./read-options.ts");
        const flags = [...readFlags(command)].filter(([name]) => name === "config" || name === "data-dir");
        await run(await readOptions(new Map(flags), process.env));
      };
    }
    const flag = others.find((name) => isGiven(command, name));
    if (flag !== undefined) {
      throw new UsageFailure(
        `${flag} is for modules in a data directory: name it with --data-dir or --config. What a server does is in its configuration, in modules.`,
      );
    }
    return undefined;
  });
}

const verifyDetails = `
With --config, --data-dir or --store, this command opens the store itself, also while the service runs.`;

const moduleDetails = `
With --config or --data-dir, list, install and remove work in this data directory instead, without the server. The flows have the
changes after flowgate runtime restart.`;

const installDetails = `

With --config or --data-dir, this command installs with the npm of this machine, as the user of the service, into its data directory.
Neither the configuration of npm in the environment and the home directory nor files of flows are read: --npmrc names a file with
registries, tokens, proxies and certificates. HTTP_PROXY, HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS are used.`;
