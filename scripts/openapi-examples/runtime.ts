import type { Examples } from "@flowgate/gateway";
import { flowId, json, nodeError, rev } from "./values.ts";

const runtimeState = {
  name: "node-red",
  version: "5.0.7",
  state: "running",
  httpPort: 1880,
  isolation: { level: "namespaces", user: 65_531 },
};

export const runtime: Examples = {
  SettingsService_GetSettings: {
    responses: {
      200: json({
        running: {
          summary: "The flows are running",
          value: {
            version: "0.2.0",
            apiVersions: ["v1", "v2"],
            runtime: runtimeState,
            user: { username: "admin", permissions: ["*"] },
            roles: [
              { name: "viewer", permissions: ["read"] },
              { name: "admin", permissions: ["*"] },
            ],
          },
        },
        failed: {
          summary: "The flows can't be started",
          value: {
            version: "0.2.0",
            apiVersions: ["v1", "v2"],
            runtime: {
              name: "node-red",
              version: "5.0.7",
              state: "failed",
              httpPort: 1880,
              message: "missing node types: mqtt-broker",
              isolation: { level: "namespaces", user: 65_531 },
            },
          },
        },
      }),
    },
  },
  ContextService_ListContext: {
    responses: {
      200: json({
        keys: {
          value: {
            stores: ["memory"],
            scopes: [
              { scope: "global", store: "memory", keys: ["counter"] },
              { scope: `flow/${flowId}`, store: "memory", keys: ["names"] },
            ],
          },
        },
      }),
    },
  },
  ContextService_GetContext: {
    responses: {
      200: json({
        value: { summary: "One value", value: { value: { count: 7 }, format: "object" } },
        scope: { summary: "All values of a scope", value: { values: { counter: { count: 7 } } } },
      }),
    },
  },
  ContextService_SetContext: {
    request: json({ value: { value: { value: { count: 7 } } } }),
    responses: { 200: json({ set: { value: {} } }) },
  },
  ContextService_DeleteContext: {},
  LibraryService_SetLibraryEntry: {
    request: json({
      function: {
        summary: "A function",
        value: { text: "msg.payload = `Hello ${msg.payload}`;\nreturn msg;", details: { name: "greet", outputs: "1" } },
      },
      flows: { summary: "Flows", value: { text: JSON.stringify([{ id: flowId, type: "tab", label: "greetings" }]) } },
    }),
    responses: { 200: json({ set: { value: {} } }) },
  },
  RuntimeService_InjectNode: {
    request: json({
      message: { summary: "With a message", value: { message: { payload: "a value", topic: "test" } } },
      button: { summary: "Like the button of an inject node", value: {} },
    }),
    responses: { 200: json({ received: { value: {} } }) },
  },
  RuntimeService_StartFlows: {
    request: json({ start: { value: {} } }),
    responses: { 200: json({ running: { value: { rev, outcome: "running" } } }) },
  },
  RuntimeService_StopFlows: {
    request: json({ stop: { value: {} } }),
    responses: { 200: json({ stopped: { value: { rev } } }) },
  },
  RuntimeService_GetRuntime: {
    responses: {
      200: json({
        running: {
          summary: "A node has logged errors",
          value: {
            runtime: runtimeState,
            rev,
            outcome: "running",
            started: true,
            failingNodes: 1,
            runtimeProcess: {
              heapBytes: 41_523_872,
              heapLimitBytes: 4_345_298_944,
              rssBytes: 118_075_392,
              eventLoopDelayMs: 11.5,
              cpuShare: 0.013,
            },
            serviceProcess: {
              heapBytes: 33_141_880,
              heapLimitBytes: 4_345_298_944,
              rssBytes: 102_416_384,
              eventLoopDelayMs: 4.2,
              cpuShare: 0.006,
            },
            disk: { freeBytes: 31_604_957_184, totalBytes: 63_278_391_296 },
            health: {
              state: "degraded",
              conditions: [
                {
                  kind: "nodes_failing",
                  since: "2026-03-01T09:30:11.500Z",
                  lastTime: "2026-03-01T09:30:11.500Z",
                  count: 2,
                  message: "TypeError: Cannot read properties of undefined (reading 'price')",
                  nodeId: "b2",
                  nodeType: "function",
                  nodeName: "price",
                  flowId: "f1",
                  flowLabel: "Orders",
                  line: 3,
                },
              ],
            },
            restarts: 0,
          },
        },
      }),
    },
  },
  RuntimeService_ListNodeStatuses: {
    responses: {
      200: json({
        failing: {
          summary: "A node that has logged errors",
          value: {
            nodes: [
              {
                nodeId: nodeError.nodeId,
                nodeType: nodeError.nodeType,
                nodeName: nodeError.nodeName,
                flowId,
                flowLabel: nodeError.flowLabel,
                status: { text: "1 greeting", fill: "green", shape: "dot" },
                errors: 2,
                warnings: 1,
                lastError: nodeError.nodeError,
                lastErrorTime: nodeError.time,
                messages: 3,
                lastMessageTime: nodeError.time,
              },
            ],
            flows: [
              {
                flowId,
                flowLabel: nodeError.flowLabel,
                nodes: 3,
                failingNodes: 1,
                errors: 2,
                warnings: 1,
                messages: 9,
                lastError: nodeError.nodeError,
                lastErrorTime: nodeError.time,
                lastMessageTime: nodeError.time,
              },
            ],
          },
        },
      }),
    },
  },
  RuntimeService_RestartRuntime: {
    request: json({ restart: { value: {} } }),
    responses: { 200: json({ running: { value: { rev, outcome: "running" } } }) },
  },
};
