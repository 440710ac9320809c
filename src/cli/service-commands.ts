import { addHelp, defineCommand, parseDuration, type ServiceCommands, UsageFailure } from "@flowgate/cli";
import type { Command } from "commander";
import { addLocalActions } from "./local-actions.ts";
import { addSettings, readFlags, storeSettings } from "./option-flags.ts";
import type { Program } from "./program.ts";

/** The commands that run the service or work with its files. They load what they need when they run. */
export function createServiceCommands(program: Program): ServiceCommands {
  return {
    define(root) {
      root.description(
        "Deploys and runs flows: the service, and the client to administer it. Without a command, the service is started.",
      );
      addHelp(root, {
        examples: {
          flowgate: "start the service on http://127.0.0.1:8080",
          "flowgate serve --help": "all flags of the service",
        },
      });
      defineServe(root, program);
      defineStoreCommands(root, program);
      defineCredentialCommands(root, program);
      defineHashPassword(root);
      addLocalActions(root);
    },
    async checkConfiguration(configuration) {
      const { formatOptionPath, OptionsError, parseOptions } = await import("../options/parse.ts");
      try {
        parseOptions(configuration);
        return [];
      } catch (error) {
        if (!(error instanceof OptionsError)) {
          throw error;
        }
        return error.problems.map(({ path, message }) => ({ path, message: `${formatOptionPath(path)}: ${message}` }));
      }
    },
  };
}

function defineServe(root: Command, program: Program): void {
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
    const { serve } = await import("./serve.ts");
    await serve(readFlags(command), program);
  });
  addSettings(command);
}

function defineStoreCommands(root: Command, program: Program): void {
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
      const { readOptions } = await import("./read-options.ts");
      const { copyStore } = await import("./store.ts");
      await copyStore(kind, file, await readOptions(readFlags(copy), process.env));
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
      const { migrate: run } = await import("./store.ts");
      await run(readFlags(migrate), program);
    });
  addSettings(migrate, ["data-dir"]);
}

function defineHashPassword(root: Command): void {
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
      const { hashPasswordCommand } = await import("./hash-password.ts");
      await hashPasswordCommand();
    });
}

function defineCredentialCommands(root: Command, program: Program): void {
  const credentials = defineCommand(root, "credentials", {
    summary: "replace the secret that credentials are encrypted with",
    description:
      "Replace the secret or key that the credentials of flows and the sessions of browsers are encrypted with.",
    examples: { "flowgate credentials rotate --data-dir /var/lib/flowgate": "the key in this directory" },
    connects: false,
  });
  const rotate = defineCommand(credentials, "rotate", {
    summary: "encrypt everything with a new secret or key",
    description:
      "Encrypt the credentials of all revisions and proposals, what nodes have stored, and the sessions of browsers with a new secret or key, also while " +
      "services use the store.",
    details: rotateDetails,
    examples: {
      "flowgate credentials rotate --data-dir /var/lib/flowgate": "a new key, without a credentialSecret",
      "flowgate credentials rotate --config flowgate.yaml --generate": "one service, a random credentialSecret",
      "flowgate credentials rotate --config flowgate.yaml": "replicas, whose configuration has the new secret",
    },
    connects: false,
  })
    .option("--generate", "first replace credentialSecret in the configuration file by a random one")
    .option(
      "--new-secret-file <file>",
      "first replace credentialSecret in the configuration file by the one in this file",
    )
    .option(
      "--wait <duration>",
      "how long to wait until all running services know the new secret (default: 60s)",
      parseDuration,
    );
  addSettings(rotate, storeSettings).action(async () => {
    const { rotate: run } = await import("./rotate.ts");
    await run(readFlags(rotate), rotate.opts(), program);
  });
}

const rotateDetails = `
Without credentialSecret in the configuration, the key is in the data directory, as credential.key. The command creates
a new one, which a running service loads within seconds, and keeps the previous one beside it.

With credentialSecret, put a new one into the configuration of all services, and the present one into
previousCredentialSecrets, or let --generate or --new-secret-file do that in the file that --config names:

  credentialSecret: "the new secret"                # such as the output of: openssl rand -base64 32
  previousCredentialSecrets: ["the present secret"]

Services read a changed configuration file within seconds, without a restart. They go on encrypting with the present
secret until this command finds that all of them know the new one, for which it waits as long as --wait says. Nothing
is changed before that. Run it where one of the services runs, with the same configuration.

An interrupted rotation leaves everything readable: run the same command again to continue it. When it is complete,
previousCredentialSecrets is needed only to restore backups from before, and for deployments with credentials in
Node-RED's encrypted form that were encrypted with it. A leaked secret still opens backups and copies that were made
with it: replace the passwords and tokens in them where they are used.`;

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
