import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const testedVersion = "5.0.7";

type Patch = { readonly name: string; readonly file: string; readonly original: string; readonly replacement: string };

/** Changes of the flow runtime's source that save time: at each start, and in large deployments, which take time that is linear in their size. */
const patches: readonly Patch[] = [
  {
    // `scanTreeForNodesModules` reads the manifests of all packages that are installed beside the runtime, to look for nodes in them. Those of
    // `modulesDir` are found without that.
    name: "@node-red/registry",
    file: "lib/localfilesystem.js",
    original: "let coreNodesDir = settings.coreNodesDir;",
    replacement: "let coreNodesDir;",
  },
  {
    // An import looks for the names that a CommonJS module exports, in its source and in those that it requires.
    name: "@node-red/registry",
    file: "lib/loader.js",
    original: "const importPromise = import(modulePath);",
    // `deferSet`: see `loadNodeRed`.
    replacement: `const importPromise = node.module === "node-red"
            ? Promise.resolve({ default: registryUtil.deferSet?.(node, () => require(node.file)) ?? require(node.file) })
            : import(modulePath);`,
  },
  {
    // Used by the installation of modules, which is turned off.
    name: "@node-red/registry",
    file: "lib/installer.js",
    original: 'const tar = require("tar");',
    replacement: 'const tar = { x: (options) => require("tar").x(options) };',
  },
  {
    // Used by JSONata's $moment, and for dates as properties.
    name: "@node-red/util",
    file: "lib/util.js",
    original: 'const moment = require("moment-timezone");',
    replacement: 'const moment = (...values) => require("moment-timezone")(...values);',
  },
  {
    // `checkFlowDependencies` makes a deep copy of every node, then only reads the nodes and removes them from the list.
    name: "@node-red/registry",
    file: "lib/externalModules.js",
    original: "let nodes = clone(flowConfig);",
    replacement: "let nodes = [...flowConfig];",
  },
  {
    // `diffConfigs` follows the wires from the changed nodes, and copies the list of those that are left for each node on the way.
    name: "@node-red/runtime",
    file: "lib/flows/util.js",
    original: "modifiedNodes = modifiedNodes.concat(linkMap[node]);",
    replacement: "for (const linked of linkMap[node]) modifiedNodes.push(linked);",
  },
];

/**
 * Changes the source of the flow runtime when it is loaded, in the tested version only. For any other version a file is loaded as it is,
 * and `onSkipped` is called with the reason. Disposing ends that.
 */
export function patchNodeRed(onSkipped: (reason: string) => void): Disposable {
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const patch = patches.find(({ name, file }) => url.endsWith(`/${name}/${file}`));
      if (patch === undefined) {
        return loaded;
      }
      const { name, file, original, replacement } = patch;
      const manifest = new URL(`${"../".repeat(file.split("/").length - 1)}package.json`, url);
      const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
      const { source } = loaded;
      if (version !== testedVersion || typeof source !== "string" || !source.includes(original)) {
        onSkipped(`${name} ${version} is used as it is: starts and large deployments are faster with ${testedVersion}`);
        return loaded;
      }
      return { ...loaded, source: source.replace(original, replacement) };
    },
  });
  return { [Symbol.dispose]: () => hooks.deregister() };
}
