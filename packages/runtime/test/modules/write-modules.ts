import { writeFiles } from "../planted-code.ts";

export type TestModule = { readonly name: string; readonly version?: string; readonly types?: readonly string[] };

const integrity = `sha512-${"a".repeat(86)}==`;

/** Writes modules into a folder, as npm installs them. */
export async function writeModules(modulesDir: string, modules: readonly TestModule[]): Promise<void> {
  const versions = modules.map(({ name, version = "1.0.0" }) => [name, version] as const);
  const packages = versions.map(([name, version]) => [`node_modules/${name}`, { version, integrity }] as const);
  await writeFiles(modulesDir, {
    "package.json": JSON.stringify({ dependencies: Object.fromEntries(versions) }),
    "package-lock.json": JSON.stringify({ lockfileVersion: 3, packages: Object.fromEntries(packages) }),
  });
  for (const module of modules) {
    await writeFiles(`${modulesDir}/node_modules/${module.name}`, moduleFiles(module));
  }
}

/** The files of a module whose nodes do nothing. */
function moduleFiles({ name, version = "1.0.0", types = [] }: TestModule): Record<string, string> {
  return {
    "package.json": JSON.stringify({
      name,
      version,
      ...(types.length > 0 && { "node-red": { nodes: { all: "nodes.js" } } }),
    }),
    ...(types.length > 0 && { "nodes.js": nodesOf(types), "nodes.html": templatesOf(types) }),
  };
}

export function nodesOf(types: readonly string[]): string {
  return `module.exports = (RED) => {
    for (const type of ${JSON.stringify(types)}) {
      RED.nodes.registerType(type, function (config) {
        RED.nodes.createNode(this, config);
        this.on("input", (message, send, done) => { send(message); done(); });
      });
    }
  };`;
}

export function templatesOf(types: readonly string[]): string {
  return types.map((type) => `<script type="text/html" data-template-name="${type}"></script>`).join("\n");
}

/** What a package of a subflow has, as Node-RED's documentation says ("Packaging a Subflow module"). Its nodes show the status `inside`. */
export function packagedSubflow(type: string) {
  const subflow = {
    id: "packaged",
    type: "subflow",
    name: "Packaged",
    category: "function",
    in: [{ wires: [{ id: "inner" }] }],
    out: [{ wires: [{ id: "inner", port: 0 }] }],
    status: { wires: [{ id: "report", port: 0 }] },
    env: [],
    meta: { type },
    flow: [
      {
        id: "inner",
        type: "function",
        z: "packaged",
        func: `msg.payload = "packaged"; node.status({ text: "inside" }); return msg;`,
        outputs: 1,
        libs: [],
        wires: [[]],
      },
      { id: "report", type: "status", z: "packaged", scope: null, wires: [[]] },
    ],
  };
  return {
    manifest: { "node-red": { nodes: { example: "example.js" } } },
    files: {
      "subflow.json": JSON.stringify(subflow),
      "example.js": `const fs = require("fs");
        const path = require("path");
        module.exports = function (RED) {
          const subflowFile = path.join(__dirname, "subflow.json");
          const subflowContents = fs.readFileSync(subflowFile);
          RED.nodes.registerSubflow(JSON.parse(subflowContents));
        };`,
    },
  };
}

/** The template of a node that can be dragged from the palette of Node-RED's editor. */
export function paletteTemplateOf(type: string): string {
  return `<script type="text/html" data-template-name="${type}"></script>
<script type="text/javascript">
  RED.nodes.registerType("${type}", { category: "function", defaults: {}, inputs: 1, outputs: 1, label: "${type}" });
</script>`;
}
