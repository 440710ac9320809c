import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Fields } from "@flowgate/base/fields";

/** The files of Node-RED's editor. */
export type EditorClient = {
  readonly version: string;
  /** The files that browsers load. */
  readonly publicDir: string;
  /** The messages of the editor, in a folder for each language. */
  readonly localesDir: string;
  /** The page, a template of Mustache. */
  readonly template: string;
};

/** Reads the files of the package in a folder. */
export function readEditorClient(dir: string): EditorClient {
  const { version } = JSON.parse(readFileSync(join(dir, "package.json"), "utf8")) as { readonly version: string };
  return {
    version,
    publicDir: join(dir, "public"),
    localesDir: join(dir, "locales"),
    template: join(dir, "templates", "index.mst"),
  };
}

/**
 * The editor's own part of `/settings`. It connects to nothing but this listener, and to `catalogue`, the URL of the list of
 * modules that can be installed. Without one, modules can be uploaded.
 */
export async function editorSettings({ localesDir }: EditorClient, catalogue: string | undefined): Promise<Fields> {
  const languages = (await readdir(localesDir)).filter((name) => /^[a-z]{2,3}(?:-[a-z]+)?$/i.test(name));
  return {
    editorTheme: {
      languages: languages.toSorted(),
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
