import { join } from "node:path";
import type { FastifyInstance } from "fastify";
import { FlowgateError } from "@flowgate/flows/errors";
import { publicRoute } from "../../../src/server/tools/access.ts";
import { addApiRoutes, type ApiRoutesOptions } from "./api-routes.ts";
import { addEditorRoutes, type EditorRoutesOptions } from "./editor/routes.ts";
import { addContextRoutes, type ContextRoutesOptions } from "./context-routes.ts";
import { addLibraryRoutes, type LibraryRoutesOptions } from "./library-routes.ts";
import { addRegisteredRoutes, type RegisteredRoutesOptions } from "./registered-routes.ts";
import { addNodesRoutes, type NodesRoutesOptions } from "./nodes-routes.ts";
import { addPaletteRoutes, type PaletteRoutesOptions } from "./palette/routes.ts";
import { addRuntimeRoutes, type RuntimeRoutesOptions } from "./runtime-routes.ts";
import { addSettingsRoutes, type SettingsRoutesOptions } from "./settings-routes.ts";

export type RoutesOptions = ApiRoutesOptions &
  ContextRoutesOptions &
  LibraryRoutesOptions &
  RegisteredRoutesOptions &
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
    addEditorRoutes(app, editor, options.closing);
  }
  addAbsentRoutes(app);
  addRegisteredRoutes(app, options);
}

function defaultIconOf({ client: { publicDir } }: EditorRoutesOptions): string {
  return join(publicDir, "red", "images", "icons", "arrow-in.svg");
}

/** What Node-RED has and this service has instead. */
const replaced = [
  [
    "/projects",
    "there are no projects: every deployment is a revision, which flowgate history lists, and flowgate undo and rollback bring back",
  ],
  [
    "/settings/user/keys",
    "there are no SSH keys, which Node-RED has for its projects: keep flows in git with flowgate export and sync",
  ],
] as const;

function addAbsentRoutes(app: FastifyInstance): void {
  for (const [path, message] of replaced) {
    for (const url of [path, `${path}/*`]) {
      app.all(url, { config: publicRoute }, () => {
        throw new FlowgateError("not_found", message);
      });
    }
  }
  app.setNotFoundHandler(() => {
    throw new FlowgateError(
      "not_found",
      "Node-RED's admin API has no such path here; the API of the service has its own port",
    );
  });
}
