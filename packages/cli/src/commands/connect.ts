import type { Command } from "commander";
import { clientAction, outputAction } from "../client/action.ts";
import type { ConnectionFlags } from "../client/connection-flags.ts";
import { defineCommand } from "../define-command.ts";

export function defineConnectCommands(root: Command): void {
  defineCommand(root, "login", {
    summary: "log in to a server",
    description:
      "Log in to a server, and store the token in the configuration file of this user. It is sent to this server only. The server that --server " +
      "names becomes the current one, as with flowgate server use. If the server has an " +
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
    examples: { "flowgate logout": "the current server", "flowgate logout --server staging": "another one" },
  })
    .option("--local", "only delete it, for a server that cannot be reached")
    .action(clientAction(async () => (await import("../client/login.ts")).logOut));

  defineCommand(root, "whoami", {
    summary: "show the user and the permissions at a server",
    description: "Show as which user the server sees you, and with which permissions.",
    examples: { "flowgate whoami": "the current server", "flowgate whoami -o json": "for programs" },
  }).action(clientAction(async () => (await import("../client/login.ts")).showIdentity));

  defineServer(root);
}

function defineServer(root: Command): void {
  const server = defineCommand(root, "server", {
    summary: "save servers under names, and choose the current one",
    description:
      "Save servers under names, with how to reach them, and choose the current one, which commands call by default.",
    details: serverDetails,
    examples: {
      "flowgate server add staging https://staging.example.com": "name a server",
      "flowgate server use staging": "call it from now on",
      "flowgate status --server production": "call another one once",
    },
    connects: false,
  });

  defineCommand(server, "list", {
    summary: "list the servers",
    description:
      "List the servers, with the users that are logged in. With -o, how to reach them too. Tokens are not shown.",
    examples: { "flowgate server list": "the current one has a *" },
    connects: false,
    output: true,
  })
    .alias("ls")
    .action(outputAction(async () => (await load()).listServers));

  defineCommand(server, "use", {
    summary: "make a server the current one",
    description: "Make a server the current one.",
    examples: { "flowgate server use staging": "from now on" },
    connects: false,
  })
    .argument("<server>", "name of the server")
    .action(async (name: string) => (await load()).useServer(name));

  defineCommand(server, "add", {
    summary: "save a server under a name",
    description:
      "Save a server, with the TLS options that it needs. The first server that is added becomes the current one.",
    examples: {
      "flowgate server add local unix:/var/lib/flowgate/flowgate.sock": "a Unix socket",
      "flowgate server add staging https://staging.example.com --ca-file ca.pem": "a private CA",
    },
  })
    .argument("<name>", "a new name")
    .argument("<url>", "URL of the server, or unix:<path> of its socket")
    .action(async (name: string, url: string, _flags: unknown, command: Command) =>
      (await load()).addServer(name, url, command.optsWithGlobals<ConnectionFlags>()),
    );

  defineCommand(server, "remove", {
    summary: "remove a server",
    description: "Remove a server, and the login at it if it is not saved under another name too.",
    examples: { "flowgate server remove staging": "after flowgate logout --server staging" },
    connects: false,
  })
    .alias("rm")
    .argument("<server>", "name of the server")
    .action(async (name: string) => (await load()).removeServer(name));
}

const serverDetails = `
--server and FLOWGATE_SERVER take such a name or a URL. flowgate login --server saves the server too. Names and logins are in
$XDG_CONFIG_HOME/flowgate/config.yaml, by default ~/.config/flowgate/config.yaml.`;

const load = () => import("../client/servers.ts");
