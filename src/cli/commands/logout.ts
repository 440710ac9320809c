import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";

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
        const { logOut } = await import("../login/log-out.ts");
        await logOut(context, flags);
      }),
    );
}
