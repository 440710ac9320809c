import type { FastifyInstance } from "fastify";
import { addAbsentRoutes } from "./absent-routes.ts";
import { addApiRoutes, type ApiRoutesOptions } from "./api-routes.ts";
import { addContextRoutes, type ContextRoutesOptions } from "./context-routes.ts";
import { addLibraryRoutes, type LibraryRoutesOptions } from "./library-routes.ts";
import { addNodeRoutes, type NodeRoutesOptions } from "./node-routes.ts";
import { addNodesRoutes, type NodesRoutesOptions } from "./nodes-routes.ts";
import { addRuntimeRoutes, type RuntimeRoutesOptions } from "./runtime-routes.ts";
import { addSettingsRoutes, type SettingsRoutesOptions } from "./settings-routes.ts";

export type RoutesOptions = ApiRoutesOptions &
  ContextRoutesOptions &
  LibraryRoutesOptions &
  NodeRoutesOptions &
  NodesRoutesOptions &
  RuntimeRoutesOptions &
  SettingsRoutesOptions;

/** All routes of the listener. A file that adds routes has a function, which is called here. */
export function addRoutes(app: FastifyInstance, options: RoutesOptions): void {
  addApiRoutes(app, options);
  addSettingsRoutes(app, options);
  addRuntimeRoutes(app, options);
  addContextRoutes(app, options);
  addLibraryRoutes(app, options);
  addNodesRoutes(app, options);
  addAbsentRoutes(app);
  addNodeRoutes(app, options);
}
