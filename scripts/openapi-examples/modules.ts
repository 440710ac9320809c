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
  sets: [{ name: "cronplus", types: ["cronplus"], enabled: true }],
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
  ModulesService_GetModule: { responses: { 200: json({ module: { value: module } }) } },
  ModulesService_InstallModule: {
    request: json({
      range: { summary: "From the registry", value: { name: module.name, version: "~2.1.0" } },
      tarball: { summary: "A package that npm pack has made", value: { tarball: "H4sIAAAAAAAAAwMAAAAAAAAAAAA=" } },
    }),
    responses: {
      201: json({
        running: { summary: "The flows run with it", value: { module, outcome: "running", restarted: false } },
      }),
      default: json({
        refused: {
          value: {
            code: "module_refused",
            message:
              "node-red-contrib-other may not be installed: modules.allow and modules.deny of the configuration say which modules may be",
          },
        },
      }),
    },
  },
  ModulesService_UpdateModule: {
    request: json({
      version: { summary: "Another version", value: { version: "2.2.0" } },
      disable: { summary: "Keep it without loading it", value: { enabled: false, force: true } },
    }),
    responses: {
      200: json({
        updated: { value: { module: { ...module, version: "2.2.0" }, outcome: "running", restarted: true } },
        disabled: {
          summary: "The flows are not started without it",
          value: {
            module: { ...module, enabled: false, loaded: false },
            outcome: "failed",
            restarted: true,
            missingTypes: ["cronplus"],
          },
        },
      }),
    },
  },
  ModulesService_DeleteModule: {
    responses: {
      200: json({
        removed: {
          summary: "Its nodes were removed from the flows before",
          value: { module: { ...module, loaded: false, flows: [], nodeCount: 0 }, outcome: "running", restarted: true },
        },
      }),
      default: json({
        used: {
          value: {
            code: "module_in_use",
            message:
              "the active flows have 1 node of node-red-contrib-cron-plus, and would not be started without it: remove them from the flows first, or set force",
          },
        },
      }),
    },
  },
};
