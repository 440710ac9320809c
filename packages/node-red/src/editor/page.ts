import { readFile } from "node:fs/promises";
import mustache from "mustache";
import type { EditorClient } from "./client-files.ts";

/** Where the page finds its own script. */
export const deployMessagePath = "flowgate/deploy-message.js";

/** The texts and links of the editor's page, in the form of Node-RED's `editorTheme`. The editor reads it from `/theme` as well. */
export const theme = {
  page: {
    title: "Node-RED",
    favicon: "favicon.ico",
    tabicon: { icon: "red/images/node-red-icon-black.svg", colour: "#8f0000" },
    scripts: [deployMessagePath],
  },
  header: { title: "Node-RED", image: "red/images/node-red-icon.svg" },
  asset: { red: "red/red.min.js", main: "red/main.min.js", vendorMonaco: "vendor/monaco/monaco-bootstrap.js" },
  themes: [] as readonly string[],
};

/** Renders the page from the template of the editor. */
export async function renderPage(client: EditorClient): Promise<string> {
  return mustache.render(await readFile(client.template, "utf8"), { ...theme, cacheBuster: client.version });
}

/** For texts that flows can write, where the editor would insert them as HTML. */
export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"'`]/g, (char) => `&#${char.charCodeAt(0)};`);
}
