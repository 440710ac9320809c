import type { Command } from "commander";
import { clientAction } from "../client/action.ts";
import { defineCommand } from "./define-command.ts";
import { revisionArgument, revisionNames } from "../shared-flags.ts";

export function defineInspectCommands(root: Command): void {
  defineCommand(root, "status", {
    summary: "show what runs, and what does not",
    description:
      "Show the service, the state of its runtime, the active revision, and what does not run and why. The exit code is 4 " +
      "if the flows do not run.",
    examples: {
      "flowgate status": "the current server",
      "flowgate status --server unix:data/flowgate.sock": "over its Unix socket",
      "until flowgate status; do sleep 5; done": "wait until the flows run",
    },
  }).action(clientAction(async () => (await import("../administration/status.ts")).showStatus));

  defineGet(root);
}

function defineGet(root: Command): void {
  const get = defineCommand(root, "get", {
    summary: "read flows, settings or a revision",
    description: "Read flows, settings or a revision. With -o json, prints what the HTTP API returns.",
    examples: {
      "flowgate get flows": "list the tabs and subflows",
      "flowgate get flows -o json > flows.json": "all nodes, and the revision",
      "flowgate get flow 2b1c0fd8 -o yaml": "one tab with its nodes",
    },
  });

  defineCommand(get, "flows", {
    summary: "the active flows",
    description: "Read the active flows, or those of a revision. Credentials are never part of them.",
    examples: { "flowgate get flows": "list the tabs and subflows" },
  })
    .option("--rev <rev>", `revision to read: ${revisionNames} (default: the active one)`)
    .action(clientAction(async () => (await load()).getFlows));

  defineCommand(get, "flow", {
    summary: "one flow with its nodes",
    description: "Read a tab with its nodes, or what all tabs share, under the id global.",
    examples: { "flowgate get flow 2b1c0fd8": "the nodes of a tab" },
  })
    .argument("<id>", "id of the tab, or global")
    .action(clientAction(async () => (await load()).getFlow));

  defineCommand(get, "settings", {
    summary: "the version, the runtime and the user",
    description: "Read the version of the service, the state of its runtime, and the user of the call.",
    examples: { "flowgate get settings -o json": "for programs" },
  }).action(clientAction(async () => (await load()).getSettings));

  defineCommand(get, "revision", {
    summary: "one deployment of the history",
    description: "Read who deployed a revision, when, and with which result.",
    examples: { "flowgate get revision 4fGx0aQz --flows -o json": "with its flows" },
  })
    .addArgument(revisionArgument())
    .option("--flows", "include its flows, with -o")
    .action(clientAction(async () => (await load()).getRevision));
}

const load = () => import("../administration/get.ts");
