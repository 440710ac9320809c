import type { Examples } from "@flowgate/gateway";
import { broker, diff, diffText, flowId, json, nodes, rev, revision } from "./values.ts";

const planned = [
  ...nodes.map((node) =>
    node.type === "function" ? { ...node, func: 'msg.payload = "Good morning!"; return msg;' } : node,
  ),
  broker,
];
const flow = { label: "Greetings", nodes: nodes.slice(1) };
const { clientAddress: _, requestId: __, tokenId: ___, ...summary } = revision;
const planText = `nodes to start: 0, to stop: 0, to restart: 1
warnings that the active flows have too: 1

${diffText}`;

export const flows: Examples = {
  FlowsService_GetFlows: {
    responses: {
      200: json({
        v1: { summary: "v1: the array of nodes", value: nodes },
        v2: { summary: "v2: with the revision", value: { flows: nodes, rev } },
      }),
      default: json({
        version: {
          summary: "Unknown Service-API-Version",
          value: { code: "invalid_api_version", message: "Service-API-Version: must be one of v1, v2" },
        },
      }),
    },
  },
  FlowsService_SetFlows: {
    request: json({
      v1: { summary: "v1: the array of nodes", value: nodes },
      v2: { summary: "v2: only if the revision is still active", value: { flows: nodes, rev } },
      modules: {
        summary: "v2: with a module that is installed before",
        value: { flows: nodes, modules: [{ name: "node-red-contrib-cron-plus", version: "2.1.0" }] },
      },
      v2Credentials: {
        summary: "v2: with top-level credentials",
        value: { flows: [broker], credentials: { broker: { user: "flowgate", password: "the broker's password" } } },
      },
    }),
    responses: {
      200: json({ v2: { summary: "v2", value: { rev } } }),
      default: json({
        flows: {
          summary: "A node without an id",
          value: { code: "invalid_flows", message: "flows[3].id: is missing" },
        },
      }),
    },
  },
  FlowsService_UndoFlows: {
    request: json({
      active: { summary: "Undo the active revision", value: {} },
      guarded: { summary: "Only if this revision is still active", value: { rev } },
    }),
    responses: {
      200: json({ undone: { value: { rev: "Mv2xR7cHn4KfP0aLz8WtBQ" } } }),
      default: json({
        mismatch: {
          summary: "Another revision is active",
          value: {
            code: "version_mismatch",
            message: `rev: the active revision is "${rev}": read it, resolve the differences and deploy again`,
            active: summary,
          },
        },
      }),
    },
  },
  FlowsService_GetFlow: {
    responses: {
      200: json({
        tab: { summary: "A tab", value: { id: flowId, ...flow, rev } },
        global: {
          summary: "What all tabs share: /flow/global",
          value: { id: "global", nodes: [], configs: [broker], rev },
        },
      }),
      default: json({
        unknown: {
          summary: "No tab has this id",
          value: { code: "not_found", message: 'there is no flow "9b1c": no tab has this id' },
        },
      }),
    },
  },
  FlowsService_CreateFlow: {
    request: json({ flow: { summary: "Its id is assigned", value: flow } }),
    responses: {
      200: json({ created: { value: { id: flowId, rev } } }),
      default: json({
        duplicate: {
          summary: "A node with the id of another one",
          value: {
            code: "invalid_flows",
            message: 'flow.nodes[0].id: must be unique, and that of a node of another flow is "4e0d7a2b9c6f4d22" too',
          },
        },
      }),
    },
  },
  FlowsService_UpdateFlow: {
    request: json({
      guarded: { summary: "Only if the revision is still active", value: { id: flowId, ...flow, rev } },
      disabled: { summary: "Disabled", value: { ...flow, disabled: true } },
    }),
    responses: { 200: json({ changed: { value: { id: flowId, rev } } }) },
  },
  FlowsService_DeleteFlow: {
    responses: {
      default: json({
        changed: {
          summary: "If-Match is not the active revision",
          value: {
            code: "precondition_failed",
            message: `the active revision is "${rev}": read it, resolve the differences and deploy again`,
            active: summary,
          },
        },
      }),
    },
  },
  FlowsService_EnableFlow: {
    request: json({ unconditional: { summary: "Whichever revision is active", value: {} } }),
    responses: { 200: json({ changed: { value: { id: flowId, rev } } }) },
  },
  FlowsService_DisableFlow: {
    request: json({ unconditional: { summary: "Whichever revision is active", value: {} } }),
    responses: { 200: json({ changed: { value: { id: flowId, rev } } }) },
  },
  FlowsService_PlanFlows: {
    request: json({
      v1: { summary: "v1: the array of nodes", value: planned },
      v2: { summary: "v2: an object", value: { flows: planned } },
    }),
    responses: {
      200: {
        "text/plain": { plan: { summary: "The same for people", value: planText } },
        "application/json": {
          plan: {
            summary: "One node restarts. A configuration node is not used, as before",
            value: {
              rev,
              activeOutcome: "running",
              diff,
              nodes: [
                { id: "7f3a1c8e5b2d4e33", type: "function", name: "greet", tab: "9b1c0f5e2d7a4c11", action: "restart" },
              ],
              missingTypes: [],
              modules: [],
              warnings: [
                {
                  kind: "unused_config",
                  nodeId: "broker",
                  container: "",
                  message: 'mqtt-broker "broker": no node uses this configuration node',
                  existing: true,
                },
              ],
            },
          },
        },
      },
    },
  },
};
