import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { addAbsentRoutes } from "./absent-routes.ts";
import { addApiRoutes, type ApiRoutesOptions } from "./api-routes.ts";
import { addEditorRoutes, type EditorRoutesOptions } from "./editor/routes.ts";
import { addContextRoutes, type ContextRoutesOptions } from "./context-routes.ts";
import { addLibraryRoutes, type LibraryRoutesOptions } from "./library-routes.ts";
import { addNodeRoutes, type NodeRoutesOptions } from "./node-routes.ts";
import { addNodesRoutes, type NodesRoutesOptions } from "./nodes-routes.ts";
import { addPaletteRoutes, type PaletteRoutesOptions } from "./palette/routes.ts";
import { addRuntimeRoutes, type RuntimeRoutesOptions } from "./runtime-routes.ts";
import { addSettingsRoutes, type SettingsRoutesOptions } from "./settings-routes.ts";

export type RoutesOptions = ApiRoutesOptions &
  ContextRoutesOptions &
  LibraryRoutesOptions &
  NodeRoutesOptions &
  NodesRoutesOptions &
  Omit<PaletteRoutesOptions, "defaultIcon"> &
  RuntimeRoutesOptions &
  SettingsRoutesOptions & {
    /** Undefined: the editor is not served. */
    readonly editor: EditorRoutesOptions | undefined;
  };

/** All routes of the listener. A file that adds routes has a function, which is called here. */
export function addRoutes(app: FastifyInstance, options: RoutesOptions): void {
  addApiRoutes(app, options);
  addSettingsRoutes(app, options);
  addRuntimeRoutes(app, options);
  addContextRoutes(app, options);
  addLibraryRoutes(app, options);
  addNodesRoutes(app, options);
  const { editor, palette } = options;
  addPaletteRoutes(app, { palette, defaultIcon: editor && defaultIconOf(editor) });
  if (editor !== undefined) {
    addEditorRoutes(app, editor);
  }
  addAbsentRoutes(app);
  addNodeRoutes(app, options);
}

function defaultIconOf({ client: { publicDir } }: EditorRoutesOptions): string {
  return join(publicDir, "red", "images", "icons", "arrow-in.svg");
}
