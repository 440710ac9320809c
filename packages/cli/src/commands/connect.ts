import type { Command } from "commander";
import { clientAction, outputAction } from "../client/action.ts";
import type { ConnectionFlags } from "../client/connection-flags.ts";
import { defineCommand } from "../define-command.ts";

export function defineConnectCommands(root: Command): void {
  defineCommand(root, "login", {
    summary: "log in to a server",
    description:
      "Log in to a server, and store the token in the configuration file of this user. It is sent to this server only. The server that --server " +
      "names becomes the current one, as with flowgate context use. If the server has an " +
      "issuer for that, log in there with a browser on any device; otherwise, or with --username, with user and password.",
    examples: {
      "flowgate login": "print a page and a code, or ask for user and password",
      "flowgate login --browser": "open the page in the browser of this machine",
      "flowgate login --server https://flows.example.com": "another server, which other commands use from then on",
      "flowgate login --scope read": "a token that can only read",
      "flowgate login -u ci --password-stdin < password.txt": "without a terminal",
    },
  })
    .option("--issuer <name>", "log in at this issuer, if the server has several")
    .option("--browser", "open the page of the issuer in the browser of this machine")
    .option("-u, --username <name>", "log in as this user (default: ask)")
    .option("--password-stdin", "read the password from the first line of stdin")
    .option("--scope <permissions>", "permissions of the token, separated by spaces (default: all that the user has)")
    .option("--client-id <id>", "client of the service to log in as", "service-admin")
    .action(clientAction(async () => (await import("../client/login.ts")).logIn));

  defineCommand(root, "logout", {
    summary: "end the login at a server",
    description: "Revoke the token of the login at the server or its issuer, and delete it from this machine.",
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
    summary: "choose between servers; read and change what flows keep",
    description: "Choose between several servers, or read and change the values that flows keep in their context.",
    details: contextDetails,
    examples: {
      "flowgate context add staging --server https://staging.example.com": "name a server",
      "flowgate context use staging": "use it from now on",
      "flowgate status --context production": "use another one once",
      "flowgate context get": "the keys of all values that the flows of a server keep",
      "flowgate context get global/price": "one value",
    },
    connects: false,
  });
  defineServers(context.commandsGroup("Servers:"));
  defineValues(context.commandsGroup("Values of flows:"));
}

/** Names of contexts have no slash, which the names of values always have. */
function isValue(name: string): boolean {
  return name.includes("/");
}

const contextDetails = `
To choose a server, a context is a server with a name, and how to reach it; the current one is used unless --server, --context,
FLOWGATE_SERVER or FLOWGATE_CONTEXT names another. Contexts are in $XDG_CONFIG_HOME/flowgate/config.yaml, by default
~/.config/flowgate/config.yaml. Their names have no slash.

In flows, context is what nodes keep between messages, with global.set, flow.set and context.set in function nodes. These values have
a slash in their names: global/KEY, flow/TAB/KEY and node/NODE/KEY. TAB and NODE are labels, names or ids.`;

function defineServers(context: Command): void {
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
    summary: "remove a context; rm is the same",
    description: "Remove a context, and the login at its server if no other context has that server.",
    examples: { "flowgate context remove staging": "after flowgate logout --context staging" },
    connects: false,
  })
    .argument("<name>", "name of the context")
    .action(async (name: string) => (await load()).removeContext(name));
}

const storeFlag = ["--store <name>", "a store of the flow runtime (default: its default store, memory)"] as const;
const keyNames = "global/KEY, flow/TAB/KEY or node/NODE/KEY";

function defineValues(context: Command): void {
  defineCommand(context, "get", {
    summary: "show values that flows keep",
    description:
      "Show a value that flows keep in their context, all values of a tab, a node or the global context, or the keys of all. Requires the " +
      "permission context.read.",
    examples: {
      "flowgate context get": "the keys of all values",
      "flowgate context get global": "the global values",
      "flowgate context get flow/Invoices/total": "one value of a tab",
      "flowgate context get node/counter/count -o json": "for a program",
    },
  })
    .argument("[name]", `${keyNames}, or global, flow/TAB or node/NODE`)
    .option(...storeFlag)
    .action(clientAction(async () => (await loadValues()).getContext));

  defineCommand(context, "set", {
    summary: "set a value that flows keep",
    description:
      "Set a value that flows keep in their context. It is JSON, or a text that is none. Requires the permission context.write.",
    examples: {
      "flowgate context set global/price 12.5": "a number",
      "flowgate context set flow/Invoices/mode test": "a text",
      "flowgate context set global/code 0012 --string": "a text, although it looks like JSON",
      "flowgate context set global/tariffs - < tariffs.json": "a large value, from stdin",
    },
  })
    .argument("<name>", keyNames)
    .argument("<value>", "JSON, or a text that is none; - for stdin")
    .option("--string", "set a text, also if it is JSON")
    .option(...storeFlag)
    .action(clientAction(async () => (await loadValues()).setContext));

  defineCommand(context, "rm", {
    summary: "delete a value that flows keep",
    description:
      "Delete a value that flows keep in their context. Requires the permission context.write. With a name that has no slash, removes a context " +
      "like flowgate context remove.",
    examples: {
      "flowgate context rm global/price": "a value",
      "flowgate context rm staging": "a server, like flowgate context remove staging",
    },
  })
    .argument("<name>", `${keyNames}, or the name of a context`)
    .option(...storeFlag)
    .action(async (name: string, flags: object, command: Command) =>
      isValue(name)
        ? clientAction(async () => (await loadValues()).deleteContext)(name, flags, command)
        : (await load()).removeContext(name),
    );
}

const load = () => import("../client/contexts.ts");
const loadValues = () => import("../administration/flow-context.ts");
