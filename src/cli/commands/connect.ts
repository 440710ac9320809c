import type { Command } from "commander";
import { clientAction, outputAction } from "../client/action.ts";
import type { ConnectionFlags } from "../client/connection-flags.ts";
import { defineCommand } from "./define-command.ts";

export function defineConnectCommands(root: Command): void {
  defineCommand(root, "login", {
    summary: "log in to a server",
    description:
      "Log in to a server, and store the token that it issues in the configuration file of this user. It is sent to this " +
      "server only.",
    examples: {
      "flowgate login": "ask for user and password",
      "flowgate login --server https://flows.example.com": "another server",
      "flowgate login --scope read": "a token that can only read",
      "flowgate login -u ci --password-stdin < password.txt": "without a terminal",
    },
  })
    .option("-u, --username <name>", "log in as this user (default: ask)")
    .option("--password-stdin", "read the password from the first line of stdin")
    .option("--scope <permissions>", "permissions of the token, separated by spaces (default: all that the user has)")
    .option("--client-id <id>", "client of the service to log in as", "service-admin")
    .action(clientAction(async () => (await import("../client/login.ts")).logIn));

  defineCommand(root, "logout", {
    summary: "end the login at a server",
    description: "Revoke the token of the login at the server, and delete it from this machine.",
    examples: { "flowgate logout": "the current server", "flowgate logout --context staging": "another one" },
  })
    .option("--local", "only delete it, for a server that cannot be reached")
    .action(clientAction(async () => (await import("../client/login.ts")).logOut));

  defineCommand(root, "whoami", {
    summary: "show the user and the permissions at a server",
    description: "Show as which user the server sees you, and with which permissions.",
    examples: { "flowgate whoami": "the current server", "flowgate whoami -o json": "for programs" },
  }).action(clientAction(async () => (await import("../client/login.ts")).showIdentity));

  defineContext(root);
}

function defineContext(root: Command): void {
  const context = defineCommand(root, "context", {
    summary: "choose between several servers",
    description:
      "Choose between several servers. A context is a server with a name, and how to reach it; the current one is used " +
      "unless --server, --context, FLOWGATE_SERVER or FLOWGATE_CONTEXT names another. Contexts are in " +
      "$XDG_CONFIG_HOME/flowgate/config.yaml, by default ~/.config/flowgate/config.yaml.",
    examples: {
      "flowgate context add staging --server https://staging.example.com": "name a server",
      "flowgate context use staging": "use it from now on",
      "flowgate status --context production": "use another one once",
    },
    connects: false,
  });

  defineCommand(context, "list", {
    summary: "list the contexts",
    description: "List the contexts, with the users that are logged in.",
    examples: { "flowgate context list": "the current one has a *" },
    connects: false,
    output: true,
  })
    .alias("ls")
    .action(outputAction(async () => (await load()).listContexts));

  defineCommand(context, "show", {
    summary: "show a context",
    description: "Show a context, by default the current one. Tokens are not shown.",
    examples: { "flowgate context show": "the current one" },
    connects: false,
    output: true,
  })
    .argument("[name]", "name of the context")
    .action(outputAction(async () => (await load()).showContext));

  defineCommand(context, "use", {
    summary: "make a context the current one",
    description: "Make a context the current one.",
    examples: { "flowgate context use staging": "from now on" },
    connects: false,
  })
    .argument("<name>", "name of the context")
    .action(async (name: string) => (await load()).useContext(name));

  defineCommand(context, "add", {
    summary: "add a context",
    description:
      "Add a context for the server in --server, with the TLS options that it needs. The first context that is added becomes the current one.",
    examples: {
      "flowgate context add local --server unix:/var/lib/flowgate/flowgate.sock": "a Unix socket",
      "flowgate context add staging --server https://staging.example.com --ca-file ca.pem": "a private CA",
    },
  })
    .argument("<name>", "name of the context")
    .action(async (name: string, _flags: unknown, command: Command) =>
      (await load()).addContext(name, command.optsWithGlobals<ConnectionFlags>()),
    );

  defineCommand(context, "remove", {
    summary: "remove a context",
    description: "Remove a context, and the login at its server if no other context has that server.",
    examples: { "flowgate context remove staging": "after flowgate logout --context staging" },
    connects: false,
  })
    .alias("rm")
    .argument("<name>", "name of the context")
    .action(async (name: string) => (await load()).removeContext(name));
}

const load = () => import("../client/contexts.ts");
