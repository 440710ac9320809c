import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

/** A module that writes a file when it is loaded, named after the place from which it was. */
const reporting = (place: string) =>
  `process.getBuiltinModule("fs").appendFileSync("loaded", ${JSON.stringify(`${place}\n`)}); module.exports = () => {};`;

const manifest = (name: string, rest: object = {}) =>
  JSON.stringify({ name, version: "1.0.0", main: "index.js", ...rest });

/** Files from which Node-RED or Node could load code at the next start, by their paths in the runtime's folder. */
export const plantedCode: Readonly<Record<string, string>> = {
  "nodes/planted.js": reporting("nodes"),
  "nodes/planted.html": "<script></script>",
  "node_modules/planted/package.json": manifest("planted", { "node-red": { nodes: { planted: "index.js" } } }),
  "node_modules/planted/index.js": reporting("node_modules"),
  "node_modules/library/package.json": manifest("library"),
  "node_modules/library/index.js": reporting("a library"),
  "node_modules/@node-red/nodes/package.json": manifest("@node-red/nodes"),
  "node_modules/@node-red/nodes/index.js": reporting("a core module"),
  "externalModules/node_modules/library/index.js": reporting("externalModules"),
  "package.json": manifest("user-dir", {
    dependencies: { planted: "1.0.0", library: "1.0.0" },
    "node-red": { nodes: { planted: "planted.js" } },
  }),
  "planted.js": reporting("package.json"),
  "planted.html": "",
  "settings.js": reporting("settings.js"),
  ".config.nodes.json": JSON.stringify({
    planted: {
      name: "planted",
      version: "1.0.0",
      nodes: { planted: { name: "planted", types: ["planted"], enabled: true, file: "planted.js" } },
    },
  }),
  ".config.json": JSON.stringify({ nodes: {}, modules: { library: { module: "library" } } }),
  // Node looks for modules in these folders of the home directory. The packages are optional ones of Node-RED's dependencies.
  ...Object.fromEntries(
    ["bufferutil", "utf-8-validate", "supports-color", "iconv", "encoding"].flatMap((name) =>
      [".node_modules", ".node_libraries"].map((folder) => [`${folder}/${name}.js`, reporting(`${folder}/${name}`)]),
    ),
  ),
};

/** Writes files by their paths in a folder, which is created. */
export async function writeFiles(folder: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
}
