import { DeploymentOutcome, DeploymentOutcomeSchema, RestartRuntimeResponseSchema } from "@flowgate/client";
import type { ClientContext } from "../client/action.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import { printable } from "../printable.ts";
import { confirm } from "../output/prompts.ts";
import { enumWord } from "../output/values.ts";

export type RestartFlags = { readonly clearFiles?: boolean; readonly yes?: boolean };

/** Restarts the runtime. Throws a CliFailure if the flows do not run then. */
export async function restartRuntime(
  { session, output, progress }: ClientContext,
  { clearFiles = false, yes }: RestartFlags,
): Promise<void> {
  if (clearFiles && yes !== true) {
    await confirm("Remove all files that flows have written?", {
      declined: "Nothing was removed, and the runtime was not restarted.",
      unattended: new CliFailure("--clear-files: removes all files that flows have written: confirm it with --yes"),
    });
  }
  const response = await progress.during("Restarting the runtime", () =>
    session.runtime.restartRuntime({ clearFiles }),
  );
  const { outcome, rev, missingTypes } = response;
  const isRunning = outcome === DeploymentOutcome.RUNNING;
  if (isRunning || output.format !== undefined) {
    output.message(RestartRuntimeResponseSchema, response, () =>
      output.style("green", `The flows of revision ${printable(rev)} are running in a new process.`),
    );
  }
  if (!isRunning) {
    const missing =
      missingTypes.length === 0 ? "" : ` These node types are not installed: ${printable(missingTypes.join(", "))}.`;
    throw new CliFailure(
      `The runtime was restarted, but its flows do not run (${enumWord(DeploymentOutcomeSchema, outcome)}).${missing} See flowgate status.`,
      { exitCode: exitCodes.notRunning },
    );
  }
}
