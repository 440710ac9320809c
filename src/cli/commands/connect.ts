import type { Command } from "commander";
import { clientAction, outputAction } from "../client/action.ts";
import { type ConnectionFlags, withoutServer } from "../client/connection-flags.ts";
import type { LoginFlags } from "../client/login.ts";
import { examples } from "../help.ts";

export function defineLogin(root: Command): void {
  root
    .command("login")
    .summary("log in to a server")
    .description(
      "Log in to a server, and store the token that it issues in the configuration file of this user. It is sent to this " +
        "server only.",
    )
    .option("-u, --username <name>", "log in as this user (default: ask)")
    .option("--password-stdin", "read the password from the first line of stdin")
    .option("--scope <permissions>", "permissions of the token, separated by spaces (default: all that the user has)")
    .option("--client-id <id>", "client of the service to log in as", "service-admin")
    .addHelpText(
      "after",
      examples(
        ["flowgate login", "ask for user and password"],
        ["flowgate login --server https://flows.example.com", "another server"],
        ["flowgate login --scope read", "a token that can only read"],
        ["flowgate login -u ci --password-stdin < password.txt", "without a terminal"],
      ),
    )
    .action(
      clientAction(async (context, flags: LoginFlags) => {
        const { logIn } = await import("../client/login.ts");
        await logIn(context, flags);
      }),
    );
}

export function defineLogout(root: Command): void {
  root
    .command("logout")
    .summary("end the login at a server")
    .description("Revoke the token of the login at the server, and delete it from this machine.")
    .option("--local", "only delete it, for a server that cannot be reached")
    .addHelpText(
      "after",
      examples(["flowgate logout", "the current server"], ["flowgate logout --context staging", "another one"]),
    )
    .action(
      clientAction(async (context, flags: { readonly local?: true }) => {
        const { logOut } = await import("../client/login.ts");
        await logOut(context, flags);
      }),
    );
}

export function defineWhoami(root: Command): void {
  root
    .command("whoami")
    .summary("show the user and the permissions at a server")
    .description("Show as which user the server sees you, and with which permissions.")
    .addHelpText(
      "after",
      examples(["flowgate whoami", "the current server"], ["flowgate whoami -o json", "for programs"]),
    )
    .action(clientAction(async (context) => (await import("../client/login.ts")).showIdentity(context)));
}

export function defineContext(root: Command): void {
  const context = withoutServer(root.command("context"))
    .summary("choose between several servers")
    .description(
      "Choose between several servers. A context is a server with a name, and how to reach it; the current one is used " +
        "unless --server, --context, FLOWGATE_SERVER or FLOWGATE_CONTEXT names another. Contexts are in " +
        "$XDG_CONFIG_HOME/flowgate/config.yaml, by default ~/.config/flowgate/config.yaml.",
    )
    .addHelpText(
      "after",
      examples(
        ["flowgate context add staging --server https://staging.example.com", "name a server"],
        ["flowgate context use staging", "use it from now on"],
        ["flowgate status --context production", "use another one once"],
      ),
    );

  withoutServer(context.command("list"), { output: true })
    .alias("ls")
    .summary("list the contexts")
    .description("List the contexts, with the users that are logged in.")
    .addHelpText("after", examples(["flowgate context list", "the current one has a *"]))
    .action(outputAction(async (output) => (await load()).listContexts(output)));

  withoutServer(context.command("show"), { output: true })
    .summary("show a context")
    .description("Show a context, by default the current one. Tokens are not shown.")
    .argument("[name]", "name of the context")
    .addHelpText("after", examples(["flowgate context show", "the current one"]))
    .action(outputAction(async (output, name: string | undefined) => (await load()).showContext(output, name)));

  withoutServer(context.command("use"))
    .summary("make a context the current one")
    .description("Make a context the current one.")
    .argument("<name>", "name of the context")
    .addHelpText("after", examples(["flowgate context use staging", "from now on"]))
    .action(async (name: string) => (await load()).useContext(name));

  context
    .command("add")
    .summary("add a context")
    .description(
      "Add a context for the server in --server, with the TLS options that it needs. The first context that is added becomes the current one.",
    )
    .argument("<name>", "name of the context")
    .addHelpText(
      "after",
      examples(
        ["flowgate context add local --server unix:/var/lib/flowgate/flowgate.sock", "a Unix socket"],
        ["flowgate context add staging --server https://staging.example.com --ca-file ca.pem", "a private CA"],
      ),
    )
    .action(async (name: string, _flags: unknown, command: Command) =>
      (await load()).addContext(name, command.optsWithGlobals<ConnectionFlags>()),
    );

  withoutServer(context.command("remove"))
    .alias("rm")
    .summary("remove a context")
    .description("Remove a context, and the login at its server if no other context has that server.")
    .argument("<name>", "name of the context")
    .addHelpText("after", examples(["flowgate context remove staging", "after flowgate logout --context staging"]))
    .action(async (name: string) => (await load()).removeContext(name));
}

const load = () => import("../client/contexts.ts");
