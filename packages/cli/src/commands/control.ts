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

  defineContext(root);
}

const injectDetails = `
Of several nodes with the same name, an inject node is meant; if there are several, they are listed, to be named by id. A node in a
subflow has the id of the instance, a hyphen, and its own.`;

const storeFlag = ["--store <name>", "a store of the flow runtime (default: its default store, memory)"] as const;
const keyNames = "global/KEY, flow/TAB/KEY or node/NODE/KEY";

function defineContext(root: Command): void {
  const context = defineCommand(root, "context", {
    summary: "read and change the values that flows keep",
    description: "Read and change the values that flows keep in their context.",
    details: contextDetails,
    examples: { "flowgate context get": "the keys of all values", "flowgate context get global/price": "one value" },
  });

  defineCommand(context, "get", {
    summary: "show values that flows keep",
    description:
      "Show a value that flows keep in their context, all values of a tab, a node or the global context, or the keys of all. Requires the " +
      "permission context.read.",
    examples: {
      "flowgate context get": "the keys of all values",
      "flowgate context get global": "the global values",
      "flowgate context get flow/Invoices/total": "one value of a tab",
      "flowgate context get node/counter/count -o json": "for a program",
    },
  })
    .argument("[name]", `${keyNames}, or global, flow/TAB or node/NODE`)
    .option(...storeFlag)
    .action(clientAction(async () => (await loadContext()).getContext));

  defineCommand(context, "set", {
    summary: "set a value that flows keep",
    description:
      "Set a value that flows keep in their context. It is JSON, or a text that is none. Requires the permission context.write.",
    examples: {
      "flowgate context set global/price 12.5": "a number",
      "flowgate context set flow/Invoices/mode test": "a text",
      "flowgate context set global/code 0012 --string": "a text, although it looks like JSON",
      "flowgate context set global/tariffs - < tariffs.json": "a large value, from stdin",
    },
  })
    .argument("<name>", keyNames)
    .argument("<value>", "JSON, or a text that is none; - for stdin")
    .option("--string", "set a text, also if it is JSON")
    .option(...storeFlag)
    .action(clientAction(async () => (await loadContext()).setContext));

  defineCommand(context, "rm", {
    summary: "delete a value that flows keep",
    description: "Delete a value that flows keep in their context. Requires the permission context.write.",
    examples: { "flowgate context rm global/price": "a value" },
  })
    .argument("<name>", keyNames)
    .option(...storeFlag)
    .action(clientAction(async () => (await loadContext()).deleteContext));
}

const contextDetails = `
In flows, context is what nodes keep between messages, with global.set, flow.set and context.set in function nodes. A value is named
global/KEY, flow/TAB/KEY or node/NODE/KEY. TAB and NODE are labels, names or ids.`;

const loadContext = () => import("../administration/flow-context.ts");
