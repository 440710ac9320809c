import type { Command } from "commander";
import { clientAction } from "../client/client-action.ts";

export function defineStatus(root: Command): void {
  root
    .command("status")
    .summary("show what runs, and what does not")
    .description("Show the service, the state of its runtime, the active revision, and what does not run and why.")
    .action(
      clientAction(async ({ session, output }) => {
        const { GetSettingsResponseSchema } = await import("@flowgate/client");
        const settings = await session.settings.getSettings({});
        output.message(GetSettingsResponseSchema, settings, () => output.table(["VERSION"], [[settings.version]]));
      }),
    );
}
