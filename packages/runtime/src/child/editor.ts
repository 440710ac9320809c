import {
  type EditorContextArgument,
  type NodeCredentialsArgument,
  readDiagnostics,
  readEditorContext,
  readEditorSettings,
  readNodeCredentials,
} from "../editor-procedures.ts";
import type { CallHandler } from "./call-server.ts";
import type { NodeRed } from "./node-red.ts";

/** Answers requests of Node-RED's own tools with the functions that its admin API calls. */
export function editorHandlers({
  runtime,
  loadTypes,
}: Pick<NodeRed, "runtime" | "loadTypes">): [string, CallHandler][] {
  return [
    [
      readEditorContext.name,
      async (argument: EditorContextArgument) => {
        const { stores } = runtime._.nodes.listContextStores();
        if (argument.store !== undefined && !stores.includes(argument.store)) {
          return { missing: true };
        }
        return { result: await runtime.context.getValue(argument) };
      },
    ],
    [
      readEditorSettings.name,
      () => {
        const settings: Record<string, unknown> = { context: runtime._.nodes.listContextStores() };
        runtime._.settings.exportNodeSettings(settings);
        runtime._.plugins.exportPluginSettings(settings);
        return settings;
      },
    ],
    [readDiagnostics.name, () => runtime.diagnostics.get({ scope: "basic" })],
    [
      readNodeCredentials.name,
      async (argument: NodeCredentialsArgument) => {
        await loadTypes([argument.type]);
        return runtime.flows.getNodeCredentials(argument);
      },
    ],
  ];
}
