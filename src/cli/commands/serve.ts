import type { Command } from "commander";
import { withoutServer } from "../client/connection-options.ts";
import { examples } from "../examples.ts";
import type { Program } from "../service/program.ts";
import { addSettings, readFlags } from "../service/flags.ts";

const details = `
Serves the administration API over HTTP, Connect, gRPC and gRPC-Web on one port. flowgate without a command does the same.

Flags take precedence over environment variables, variables over the configuration file. docs/configuration.md has all
options.

A configuration file, flowgate.yaml:

  host: 0.0.0.0
  dataDir: /var/lib/flowgate
  adminAuth:
    users:
      - username: admin
        password: "$argon2id$v=19$m=19456,t=2,p=1$..."   # from flowgate hash-password
        permissions: "*"
    default:
      permissions: read`;

export function defineServe(root: Command, { openGateway, beforeLoad }: Program): void {
  const command = withoutServer(root.command("serve"))
    .alias("start")
    .summary("start the service (the default)")
    .description("Start the service.")
    .addHelpText("after", details)
    .addHelpText(
      "after",
      examples(
        ["flowgate", "on http://127.0.0.1:8080, without users"],
        ["flowgate serve --config flowgate.yaml", "with users"],
        ["flowgate login", "in another terminal"],
        ["flowgate status", "what runs"],
      ),
    )
    .action(async () => {
      const { serve } = await import("../service/serve.ts");
      await serve(readFlags(command), { openGateway, ...(beforeLoad && { beforeLoad }) });
    });
  addSettings(command);
}
