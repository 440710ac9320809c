import type { Command } from "commander";
import { outputAction } from "../client/action.ts";
import { UsageFailure } from "../failure.ts";
import type { Program } from "../service/program.ts";
import type { InstallFlags } from "../service/modules.ts";
import { addSettings, readFlags, storeSettings } from "../service/option-flags.ts";
import { defineCommand } from "./define-command.ts";

export function defineServiceCommands(root: Command, program: Program): void {
  const command = defineCommand(root, "serve", {
    summary: "start the service (the default)",
    description: "Start the service.",
    details: serveDetails,
    examples: {
      flowgate: "on http://127.0.0.1:8080, without users",
      "flowgate serve --config flowgate.yaml": "with users",
      "flowgate login": "in another terminal",
      "flowgate status": "what runs",
    },
    connects: false,
  }).action(async () => {
    const { serve } = await import("../service/serve.ts");
    await serve(readFlags(command), program);
  });
  addSettings(command);

  const copies = [
    ["backup", "copy the store to a file", "Copy the store to a new file, also while the service runs."],
    ["restore", "restore the store from a copy", "Restore the store from a copy of it. The service must not run."],
  ] as const;
  for (const [kind, summary, description] of copies) {
    const copy = defineCommand(root, kind, {
      summary,
      description,
      examples: { [`flowgate ${kind} /backups/flowgate.db --config flowgate.yaml`]: "the store of this configuration" },
      connects: false,
    }).argument("<file>", "path of the copy");
    addSettings(copy, storeSettings).action(async (file: string) => {
      const { readOptions } = await import("../service/read-options.ts");
      await program.copyStore(kind, file, await readOptions(readFlags(copy), process.env));
    });
  }

  const migrate = defineCommand(root, "migrate", {
    summary: "copy the store to another one",
    description:
      "Copy the store at the URL of --from to a new store at the URL of --to. No service may use either of them.",
    examples: {
      "flowgate migrate --to postgres://flowgate@db/flowgate --config flowgate.yaml": "from SQLite to PostgreSQL",
    },
    connects: false,
  })
    .option("--from <url>", "store to copy (default: the configured one)")
    .option("--to <url>", "store to copy to (default: the configured one)")
    .action(async () => {
      const { migrate: run } = await import("../service/store.ts");
      await run(readFlags(migrate), program);
    });
  addSettings(migrate, ["data-dir"]);

  defineModule(root);

  defineCommand(root, "hash-password", {
    summary: "print the hash of a password",
    description: "Prompt for a password, or read one line from stdin, and print its hash for the configuration file.",
    examples: {
      "flowgate hash-password": "ask for it twice",
      "flowgate hash-password < password.txt": "without a prompt",
    },
    connects: false,
  })
    .allowExcessArguments()
    .action(async (_flags: unknown, { args }: Command) => {
      if (args.length > 0) {
        throw new UsageFailure(
          "hash-password takes no arguments, as other users of this machine could see them. It prompts, or reads a line from stdin.",
        );
      }
      const { hashPasswordCommand } = await import("../service/hash-password.ts");
      await hashPasswordCommand();
    });
}

function defineModule(root: Command): void {
  const module = defineCommand(root, "module", {
    summary: "install modules for flows",
    description: "Install and remove modules: npm packages with nodes for flows.",
    examples: { "flowgate module install node-red-contrib-cron-plus": "then flowgate runtime restart" },
    connects: false,
  });

  const list = defineCommand(module, "list", {
    summary: "list the modules",
    description: "List the modules that were installed, with their exact versions.",
    examples: { "flowgate module list --data-dir /var/lib/flowgate": "those of this service" },
    connects: false,
    output: true,
  }).alias("ls");
  addSettings(list, ["data-dir"]).action(
    outputAction(async () => {
      const { listModules } = await load();
      return async (output) => listModules(output, await readDataDir(list));
    }),
  );

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

const serveDetails = `
Serves the administration API over HTTP, Connect, gRPC and gRPC-Web on one port. flowgate without a command does the same.

Flags take precedence over environment variables, variables over the configuration file. docs/configuration.md has all
options.

A configuration file, flowgate.yaml:

  host: 0.0.0.0
  dataDir: /var/lib/flowgate
  adminAuth:
    users:
      - username: admin
        password: "$argon2id$v=19$m=19456,t=2,p=1$..."   # from flowgate hash-password
        permissions: "*"
    default:
      permissions: read`;

const installDetails = `
Installs with the npm of this machine, as the user of the service, into its data directory. Neither the configuration of npm in the
environment and the home directory nor files of flows are read: --npmrc names a file with registries, tokens, proxies and
certificates. HTTP_PROXY, HTTPS_PROXY, NO_PROXY and NODE_EXTRA_CA_CERTS are used. Scripts of packages are not run unless
--allow-scripts names the package, and packages come from a registry, with exact versions. If anything fails, the modules remain as
they were.`;

const load = () => import("../service/modules.ts");

async function readDataDir(command: Command): Promise<string> {
  const { readOptions } = await import("../service/read-options.ts");
  const flags = [...readFlags(command)].filter(([name]) => name === "config" || name === "data-dir");
  return (await readOptions(new Map(flags), process.env)).dataDir;
}

function collect(name: string, names: readonly string[] = []): readonly string[] {
  return [...names, name];
}
