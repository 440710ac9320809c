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
    .action(
      clientAction(async ({ connection, session, output }) => {
        const [{ UserSchema }, { printable }] = await Promise.all([
          import("@flowgate/client"),
          import("../output/printable.ts"),
        ]);
        const { user } = await session.settings.getSettings({});
        if (user === undefined) {
          output.value({}, () => `No user: ${connection.server} was called without a token.`);
          return;
        }
        output.message(UserSchema, user, () =>
          output.fields([
            ["User", printable(user.username)],
            ["Permissions", printable(user.permissions.join(" "))],
            ["Server", connection.server],
          ]),
        );
      }),
    );
}
