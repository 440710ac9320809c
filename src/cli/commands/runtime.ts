import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";
import { examples } from "../examples.ts";
import type { RestartFlags } from "../status/restart-runtime.ts";

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
    .option(
      "--clear-files",
      "remove all files in the runtime's folder, such as those of flows that have filled the disk",
    )
    .option("-y, --yes", "remove them without a question")
    .addHelpText(
      "after",
      examples(
        ["flowgate runtime restart", "the current server"],
        ["flowgate runtime restart --clear-files", "after a correction of flows that have filled the disk"],
      ),
    )
    .action(
      clientAction(async (context, flags: RestartFlags) => {
        const { restartRuntime } = await import("../status/restart-runtime.ts");
        await restartRuntime(context, flags);
      }),
    );
}
