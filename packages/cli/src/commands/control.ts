import type { Command } from "commander";
import { clientAction } from "../client/action.ts";
import { defineCommand } from "../define-command.ts";

export function defineControlCommands(root: Command): void {
  defineCommand(root, "start", {
    summary: "start the flows after they were stopped",
    description:
      "Start the active flows of a running service after flowgate stop, on all replicas. Also leaves safe mode. The exit code is 4 if they " +
      "do not run then. flowgate serve starts the service itself.",
    examples: { "flowgate start": "the flows of the current server" },
  }).action(clientAction(async () => (await import("../administration/runtime.ts")).startFlows));

  defineCommand(root, "stop", {
    summary: "stop the flows",
    description:
      "Stop the flows of a running service, on all replicas. They remain stopped until flowgate start, also after deployments and restarts of " +
      "the service, which itself goes on.",
    examples: {
      "flowgate stop": "ask in a terminal, and stop all flows",
      "flowgate stop --yes": "without a question",
      "flowgate flow disable Invoices": "stop the nodes of one tab only",
    },
  })
    .option("-y, --yes", "do not ask")
    .action(clientAction(async () => (await import("../administration/runtime.ts")).stopFlows));

  defineCommand(root, "inject", {
    summary: "make an inject node send its message",
    description:
      "Make an inject node send its message, as its button in the editor does, or send a message to another node. Requires the permission " +
      "runtime.inject.",
    details: injectDetails,
    examples: {
      "flowgate inject 'each morning'": "by its name",
      "flowgate inject 7f3a1c8e --payload 42": "by its id, with another payload",
      [`flowgate inject greet --message '{"payload": {"name": "Ada"}}'`]: "a message to a function node",
      "flowgate debug": "what comes of it, in another terminal",
    },
  })
    .argument("<node>", "id or name of a node")
    .option("--payload <value>", "replace the payload: JSON, or a text that is none")
    .option("--topic <text>", "replace the topic")
    .option("--message <json>", "replace other properties of the message, as a JSON object")
    .action(clientAction(async () => (await import("../administration/inject.ts")).injectNode));
}

const injectDetails = `
Of several nodes with the same name, an inject node is meant; if there are several, they are listed, to be named by id. A node in a
subflow has the id of the instance, a hyphen, and its own.`;
