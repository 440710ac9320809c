import { join } from "node:path";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance } from "fastify";
import { publicRoute } from "./access.ts";
import { addApiRoutes } from "./api-routes.ts";
import { PaletteChanges } from "./comms/palette-changes.ts";
import { serveComms } from "./comms/server.ts";
import { addContextRoutes } from "./context-routes.ts";
import { editorSettings, readEditorClient } from "./editor/client-files.ts";
import { addEditorRoutes } from "./editor/routes.ts";
import { handleErrors } from "./errors.ts";
import type { Caller, Host } from "./host.ts";
import { addLibraryRoutes } from "./library-routes.ts";
import { addNodesRoutes } from "./nodes-routes.ts";
import { Palette } from "./palette/palette.ts";
import { addPaletteRoutes } from "./palette/routes.ts";
import { addRegisteredRoutes } from "./registered-routes.ts";
import { addRuntimeRoutes } from "./runtime-routes.ts";
import { addSettingsRoutes, type SettingsRoutesOptions } from "./settings-routes.ts";

export { withoutMarkup } from "./errors.ts";
export type * from "./host.ts";

export type NodeRedOptions = Omit<SettingsRoutesOptions, "host"> & {
  readonly host: Host;
  /** The limit of flows and of uploaded packages. */
  readonly bodyBytes: number;
  /** Absent: the editor is not served. */
  readonly editor?: EditorOptions | undefined;
};

export type EditorOptions = {
  /** The folder of the package `@node-red/editor-client`. */
  readonly dir: string;
  /** Where compressed files are kept. */
  readonly cacheDir: string;
  /** The URL of the list of modules that can be installed, to which the editor connects. Absent: they can only be uploaded. */
  readonly catalogue?: string | undefined;
};

/**
 * Adds Node-RED's admin API to an app, and its websocket to the server of the app; with `editor`, its editor too. Each request is admitted by the
 * host before its body is read. Disposing ends the open streams and websockets.
 */
export function serveNodeRed(app: FastifyInstance, options: NodeRedOptions): AsyncDisposable {
  const { host, editor, bodyBytes } = options;
  const closing = new AbortController();
  const palette = new Palette(() => host.modules());
  const client = editor && readEditorClient(editor.dir);
  handleErrors(app, host);
  admitRequests(app, host);
  addApiRoutes(app, { host, bodyBytes });
  addSettingsRoutes(app, options, async () => (client === undefined ? {} : editorSettings(client, editor?.catalogue)));
  addRuntimeRoutes(app, host.runtime);
  addContextRoutes(app, host.runtime);
  addLibraryRoutes(app, host.library, palette);
  addNodesRoutes(app, palette, bodyBytes);
  addPaletteRoutes(app, palette, client && join(client.publicDir, "red", "images", "icons", "arrow-in.svg"));
  if (editor !== undefined && client !== undefined) {
    const { cacheDir, catalogue } = editor;
    addEditorRoutes(app, { client, cacheDir, catalogue, host });
  }
  addAbsentRoutes(app);
  addRegisteredRoutes(app, host.runtime, closing.signal);
  const comms = serveComms(app.server, { host, palette: new PaletteChanges(palette) });
  return {
    async [Symbol.asyncDispose]() {
      closing.abort();
      await comms[Symbol.asyncDispose]();
    },
  };
}

/** Must be called before routes are added. A route that does not declare its access can't be added. */
function admitRequests(app: FastifyInstance, host: Pick<Host, "admit">): void {
  app.decorateRequest("caller", null as unknown as Caller);
  app.addHook("onRoute", ({ method, url, config }) => {
    if (config?.access === undefined) {
      throw new TypeError(`${String(method)} ${url} does not declare who may use it: set its config`);
    }
  });
  app.addHook("onRequest", async (request, reply) => {
    request.caller = await host.admit(request, reply, request.routeOptions.config.access ?? publicRoute.access);
  });
}

/** Paths of Node-RED that this service does not have, with its alternative. */
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
