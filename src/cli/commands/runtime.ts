import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";

export function defineRuntime(root: Command): void {
  const runtime = root
    .command("runtime")
    .summary("control the flow runtime")
    .description("Control the flow runtime, the process that runs the flows.")
    .addHelpText("after", examples(["flowgate runtime restart", "start the flows in a new process"]));

  runtime
    .command("restart")
    .summary("start the flows in a new process")
    .description(
      "Start the active flows in a new process, which ends all code of the previous one. Also leaves safe mode. The exit " +
        "code is 4 if the flows do not run then.",
    )
    .addHelpText("after", examples(["flowgate runtime restart", "the current server"]))
    .action(
      clientAction(async (context) => {
        const { restartRuntime } = await import("../status/restart-runtime.ts");
        await restartRuntime(context);
      }),
    );
}
