import type { Command } from "commander";
import { type ConnectionFlags, withoutServer } from "../client/connection-options.ts";
import { examples } from "../examples.ts";
import { outputAction } from "../output/output-action.ts";

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
