import { readdir } from "node:fs/promises";
import type { Fields } from "../../base/fields.ts";
import type { EditorClient } from "./client-files.ts";

export type EditorSettingsOptions = {
  readonly client: EditorClient;
  /** The URL of the list of modules that can be installed; undefined: there is none, but modules can be uploaded. */
  readonly catalogue: string | undefined;
};

/** What the editor reads from `/settings` about itself. It connects to nothing but this listener, and to the configured list of modules. */
export async function editorSettings({ client, catalogue }: EditorSettingsOptions): Promise<Fields> {
  return {
    editorTheme: {
      languages: await listLanguages(client),
      palette: { catalogues: catalogue === undefined ? [] : [catalogue] },
      // Every deployment is a revision.
      projects: { enabled: false },
      tours: false,
      userMenu: true,
    },
    codeEditor: { lib: "monaco", options: {} },
    markdownEditor: { mermaid: { enabled: true } },
    telemetryEnabled: false,
  };
}

async function listLanguages({ localesDir }: EditorClient): Promise<string[]> {
  return (await readdir(localesDir)).filter((name) => /^[a-z]{2,3}(?:-[a-z]+)?$/i.test(name)).toSorted();
}
