import type { Command } from "commander";
import { clientAction } from "../client/action.ts";
import { examples } from "../help.ts";
import { revisionArgument, revisionNames } from "./shared-flags.ts";

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
        const { showStatus } = await import("../administration/status.ts");
        await showStatus(context);
      }),
    );
}

export function defineGet(root: Command): void {
  const get = root
    .command("get")
    .summary("read flows, settings or a revision")
    .description("Read flows, settings or a revision. With -o json, prints what the HTTP API returns.")
    .addHelpText(
      "after",
      examples(
        ["flowgate get flows", "list the tabs and subflows"],
        ["flowgate get flows -o json > flows.json", "all nodes, and the revision"],
        ["flowgate get flow 2b1c0fd8 -o yaml", "one tab with its nodes"],
      ),
    );

  get
    .command("flows")
    .summary("the active flows")
    .description("Read the active flows, or those of a revision. Credentials are never part of them.")
    .option("--rev <rev>", `revision to read: ${revisionNames} (default: the active one)`)
    .addHelpText("after", examples(["flowgate get flows", "list the tabs and subflows"]))
    .action(clientAction(async (context, flags: { readonly rev?: string }) => (await load()).getFlows(context, flags)));

  get
    .command("flow")
    .summary("one flow with its nodes")
    .description("Read a tab with its nodes, or what all tabs share, under the id global.")
    .argument("<id>", "id of the tab, or global")
    .addHelpText("after", examples(["flowgate get flow 2b1c0fd8", "the nodes of a tab"]))
    .action(clientAction(async (context, id: string) => (await load()).getFlow(context, id)));

  get
    .command("settings")
    .summary("the version, the runtime and the user")
    .description("Read the version of the service, the state of its runtime, and the user of the call.")
    .addHelpText("after", examples(["flowgate get settings -o json", "for programs"]))
    .action(clientAction(async (context) => (await load()).getSettings(context)));

  get
    .command("revision")
    .summary("one deployment of the history")
    .description("Read who deployed a revision, when, and with which result.")
    .addArgument(revisionArgument())
    .option("--flows", "include its flows, with -o")
    .addHelpText("after", examples(["flowgate get revision 4fGx0aQz --flows -o json", "with its flows"]))
    .action(
      clientAction(async (context, rev: string, flags: { readonly flows?: true }) =>
        (await load()).getRevision(context, rev, flags),
      ),
    );
}

const load = () => import("../administration/get.ts");
