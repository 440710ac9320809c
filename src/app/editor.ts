import { join } from "node:path";
import type { AuditRecorder } from "../auth/audit-recorder.ts";
import { OpenCalls } from "../auth/open-calls.ts";
import type { ToolAuthenticator } from "../auth/tool-authenticator.ts";
import type { CommsOptions } from "../../packages/node-red/src/comms/server.ts";
import type { EditorRoutesOptions } from "../../packages/node-red/src/editor/routes.ts";
import type { Palette } from "../../packages/node-red/src/palette/palette.ts";
import type { Fields } from "@flowgate/base/fields";
import { OptionsError, type Options } from "../options/parse.ts";
import { findCoreDir } from "../modules/core-nodes.ts";
import { describeWritableModules } from "../runtime/folders.ts";
import type { Store } from "../store/store.ts";
import type { Live } from "./live.ts";
import { disabledOf, moduleListsOf, modulesDirOf } from "./runtimes.ts";

type EditorOptions = {
  readonly options: Options;
  /** That of the flow runtime. */
  readonly version: string;
  readonly live: Pick<Live, "hub" | "join">;
  readonly store: Pick<Store, "tokens" | "cluster">;
  readonly tools: ToolAuthenticator;
  readonly audit: AuditRecorder;
};

/** What the listener of Node-RED's tools needs to serve the editor. */
export type EditorParts = {
  readonly palette: Palette;
  /** Undefined: the editor is off. */
  readonly editor: EditorRoutesOptions | undefined;
  readonly comms: Omit<CommsOptions, "refusalOf" | "clientOf">;
  readonly editorSettings: (() => Promise<Fields>) | undefined;
};

/** Opens the parts of the editor. Throws an OptionsError if it is on and not installed. */
export async function openEditor(
  { options, version, live, store, tools, audit }: EditorOptions,
  stack: AsyncDisposableStack,
): Promise<EditorParts> {
  const [{ Palette: LoadedPalette }, { PaletteChanges }, { findEditorClient, editorPackage, editorSettings }] =
    await Promise.all([
      import("../../packages/node-red/src/palette/palette.ts"),
      import("../../packages/node-red/src/comms/palette-changes.ts"),
      import("../../packages/node-red/src/editor/client-files.ts"),
    ]);
  const { dataDir, nodeRed, runtime } = options;
  const coreDir = findCoreDir();
  const modulesDir = loadedModulesDir(options);
  const palette = new LoadedPalette({
    coreDir,
    version,
    modulesDir,
    lists: moduleListsOf(options),
    disabled: disabledOf(options),
  });
  const client = nodeRed.editor === false ? undefined : findEditorClient();
  if (nodeRed.editor !== false && client === undefined) {
    const message = `needs the package ${editorPackage}, which is not installed: run npm install ${editorPackage}@${version} where flowgate is installed`;
    throw new OptionsError([{ path: ["nodeRed", "editor"], message }]);
  }
  const { catalogue } = nodeRed;
  const { hub } = live;
  const showsOwn = store.cluster !== undefined && runtime.mode === "each";
  return {
    palette,
    editor: client && {
      client,
      coreDir,
      cacheDir: join(dataDir, "editor"),
      catalogueOrigin: catalogue === undefined ? undefined : new URL(catalogue).origin,
    },
    comms: {
      authenticator: tools,
      calls: stack.use(new OpenCalls({ authenticator: tools, tokens: store.tokens })),
      join: () => live.join(undefined),
      isShown: ({ kind, runtime: source }) => !showsOwn || kind.case === "deployment" || source === hub.runtime,
      palette: stack.use(new PaletteChanges(hub, palette)),
      onDenied: (origin) => audit.record({ kind: "permission_denied", origin, detail: "events.read" }),
    },
    editorSettings: client && (() => editorSettings(client, catalogue)),
  };
}

/** The folder of added modules, if the flow runtime loads them. */
function loadedModulesDir(options: Options): string | undefined {
  const dir = modulesDirOf(options);
  const { runtime } = options;
  const isWritable = dir !== undefined && describeWritableModules(dir, [runtime.dir, ...runtime.allow.fileSystemWrite]);
  return isWritable === undefined ? dir : undefined;
}
