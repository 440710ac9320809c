import type { Command } from "commander";
import { clientAction } from "../client/action.ts";
import { defineCommand } from "../define-command.ts";
import { addEventFlags, fullFlag, parseLimit, parseTime, recordedKinds, revisionNames } from "../shared-flags.ts";

export function defineInspectCommands(root: Command): void {
  defineCommand(root, "status", {
    summary: "show what runs, and what does not",
    description:
      "Show the service, the state of its runtime, the active revision, and what does not run and why; with --nodes, also the tabs and nodes " +
      "with their statuses, errors and messages. The exit code is 4 if the flows do not run, and 5 if they are degraded.",
    examples: {
      "flowgate status": "the current server",
      "flowgate status --server unix:data/flowgate.sock": "over its Unix socket",
      "flowgate status --nodes": "which nodes have errors, and what they do",
      "flowgate status --failing --tab Invoices": "only those of a tab that have errors",
      "until flowgate status; do sleep 5; done": "wait until the flows run",
    },
  })
    .option("--nodes", "show the tabs and nodes too: since they were started, their errors, warnings and messages")
    .option("--tab <tab>", "with only the nodes of this tab, by its label or id")
    .option("--failing", "with only the nodes that have logged errors")
    .option(...fullFlag)
    .action(clientAction(async () => (await import("../administration/status.ts")).showStatus));

  defineGet(root);

  const logs = defineCommand(root, "logs", {
    summary: "show logs and errors of the flows",
    description:
      "Show what the service has recorded: logs, errors and warnings of the flows, deployments, and states of the flow runtime; the last " +
      "100, or as many as --limit says, the oldest first. With -f, also what comes.",
    details: streamDetails,
    examples: {
      "flowgate logs": "the last 100",
      "flowgate logs -f": "and what comes, until Ctrl-C",
      "flowgate logs --since 1h --level error": "the errors of the last hour",
      "flowgate logs --tab Invoices --node greet -n 20": "of one node",
      "flowgate logs --kinds node_error -n 10000 -o json | jq -r .nodeError.message": "for a program, a line for each",
    },
  })
    .option("-f, --follow", "show what comes, until Ctrl-C")
    .option("--since <time>", `only since this time: ${timeNames}`, parseTime)
    .option("--until <time>", "only before this time", parseTime)
    .option("-n, --limit <number>", "show at most the last this many (default: 100)", parseLimit);
  addEventFlags(logs, recordedKinds).action(clientAction(async () => (await import("../live/logs.ts")).showLogs));

  const events = defineCommand(root, "events", {
    summary: "show what happens in the service and its flows",
    description:
      "Show the current state, and then each event as it happens: deployments and their outcomes, states of the flow runtime, errors, logs, " +
      "statuses and debug messages of nodes, tokens and users.",
    details: streamDetails,
    examples: {
      "flowgate events": "all that this user may read, until Ctrl-C",
      "flowgate events --kinds deployment,runtime_state": "deployments, and whether the flows run",
      "flowgate events --kinds node_status --tab Invoices": "the statuses of the nodes of a tab",
      "flowgate events --since 15m --level warn": "errors and warnings, beginning with those of the last 15 minutes",
      "flowgate events --kinds deployment -o json | jq -c '.deployment // empty'":
        "for a program, a line for each event",
    },
  }).option("--since <time>", `begin with what was recorded since this time: ${timeNames}`, parseTime);
  addEventFlags(events).action(clientAction(async () => (await import("../live/events.ts")).showEvents));

  defineCommand(root, "debug", {
    summary: "show the messages of debug nodes",
    description:
      "Show the messages that debug nodes receive from now on, until Ctrl-C. They are not recorded. Requires the permission debug.read.",
    details: `${streamDetails}

What JSON lacks is shown as in JavaScript: undefined, NaN, 123n, Map(1) {"a" => 1}. With -o json, values have Node-RED's encoding.`,
    examples: {
      "flowgate debug": "of all debug nodes",
      "flowgate debug -f 'after parsing'": "of one, by its name",
      "flowgate debug --tab Invoices -o json | jq -r '.debug.value // empty'": "for a program",
    },
  })
    .argument("[node]", "id or name of a debug node")
    .option("-f, --follow", "the default, as for flowgate logs -f")
    .option("--tab <tab>", "only of this tab, by its label or id")
    .action(clientAction(async () => (await import("../live/events.ts")).showDebug));
}

const timeNames = "such as 2026-03-01T09:30:00Z, or a duration before now, such as 15m, 24h or 7d";

const streamDetails = `
Each event has a line: its time, its kind or level, the node and its type, the tab, and what it says, with ×12 if that happened 12
times. The stack of an error is indented. -o json prints one object in each line, as GET /events and GET /logs have it.

When the connection is lost, the command reconnects and continues after the last event. Ctrl-C ends the command with the exit code 130.`;

function defineGet(root: Command): void {
  const get = defineCommand(root, "get", {
    summary: "read flows",
    description: "Read flows. With -o json, prints what the HTTP API returns.",
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
}

const load = () => import("../administration/get.ts");
