import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";

export function defineStatus(root: Command): void {
  root
    .command("status")
    .summary("show what runs, and what does not")
    .description(
      "Show the service, the state of its runtime, the active revision, and what does not run and why. The exit code is 4 " +
        "if the flows do not run.",
    )
    .addHelpText(
      "after",
      examples(
        ["flowgate status", "the current server"],
        ["flowgate status --server unix:data/flowgate.sock", "over its Unix socket"],
        ["until flowgate status; do sleep 5; done", "wait until the flows run"],
      ),
    )
    .action(
      clientAction(async (context) => {
        const { showStatus } = await import("../status/show-status.ts");
        await showStatus(context);
      }),
    );
}
