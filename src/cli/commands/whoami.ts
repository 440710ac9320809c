import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";

export function defineWhoami(root: Command): void {
  root
    .command("whoami")
    .summary("show the user and the permissions at a server")
    .description("Show as which user the server sees you, and with which permissions.")
    .addHelpText(
      "after",
      examples(["flowgate whoami", "the current server"], ["flowgate whoami -o json", "for programs"]),
    )
    .action(clientAction(async (context) => (await import("../status/show-identity.ts")).showIdentity(context)));
}
