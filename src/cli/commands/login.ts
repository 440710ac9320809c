import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import type { LoginFlags } from "../login/log-in.ts";

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
        const { logIn } = await import("../login/log-in.ts");
        await logIn(context, flags);
      }),
    );
}
