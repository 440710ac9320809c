import type { Examples } from "@flowgate/gateway";
import { flowId, json } from "./values.ts";

const module = {
  name: "node-red-contrib-cron-plus",
  version: "2.1.0",
  integrity: "sha512-wEJ2r1vXGAUoSdwZ2pXgBk0jWBaOT1Bx6gqbtUkFbRZFrKBGxrJ5zUlM0jM8SVZ0TkCjKzVwBlk3uFvp9hcJgQ==",
  types: ["cronplus"],
  enabled: true,
  loaded: true,
  flows: [flowId],
  nodeCount: 1,
};

export const modules: Examples = {
  ModulesService_ListModules: {
    responses: {
      200: json({
        modules: {
          summary: "A module, and a node type that no module has",
          value: { modules: [module], missingTypes: ["mqtt-sparkplug-in"] },
        },
      }),
    },
  },
  ModulesService_GetModule: {
    responses: { 200: json({ module: { value: module } }) },
  },
};
