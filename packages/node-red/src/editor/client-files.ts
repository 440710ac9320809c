import { existsSync, readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import type { Fields } from "@flowgate/base/fields";
import { resolvePackage } from "@flowgate/base/resolve-package";

/** The files of Node-RED's editor, which is an optional package. */
export type EditorClient = {
  readonly version: string;
  /** The files that browsers load. */
  readonly publicDir: string;
  /** The messages of the editor, in a folder for each language. */
  readonly localesDir: string;
  /** The page, a template of Mustache. */
  readonly template: string;
};

export const editorPackage = "@node-red/editor-client";

/** Finds the package beside the service. Undefined: it is not installed. */
export function findEditorClient(): EditorClient | undefined {
  const manifest = resolveManifest();
  if (manifest === undefined) {
    return undefined;
  }
  const dir = dirname(manifest);
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string };
  return {
    version,
    publicDir: join(dir, "public"),
    localesDir: join(dir, "locales"),
    template: join(dir, "templates", "index.mst"),
  };
}

function resolveManifest(): string | undefined {
  try {
    const manifest = resolvePackage(`${editorPackage}/package.json`);
    return existsSync(manifest) ? manifest : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What the editor reads from `/settings` about itself. It connects to nothing but this listener, and to `catalogue`, the URL of the list of
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

/** All files below a folder, by their paths relative to it, with `/`. */
export async function listFiles(dir: string): Promise<ReadonlyMap<string, string>> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true });
  return new Map(
    entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .map((path) => [relative(dir, path).split(sep).join("/"), path]),
  );
}
