import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const file = "/@node-red/registry/lib/externalModules.js";
const testedVersion = "5.0.7";
const deepCopy = "let nodes = clone(flowConfig);";
const shallowCopy = "let nodes = [...flowConfig];";

/**
 * Replaces a deep copy in the flow runtime by a shallow one. Must be called before the runtime is loaded.
 *
 * At each deployment `checkFlowDependencies` makes a deep copy of every node, then only reads the nodes and removes them
 * from the list, for which a copy of the list is sufficient. The source is changed when it is loaded, in the tested version
 * only. For any other version nothing is changed, and `onSkipped` is called with the reason.
 */
export function avoidDeepFlowCopy(onSkipped: (reason: string) => void): void {
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!url.endsWith(file)) {
        return loaded;
      }
      hooks.deregister();
      const { version } = JSON.parse(readFileSync(new URL("../package.json", url), "utf8")) as { version: string };
      const { source } = loaded;
      if (version !== testedVersion || typeof source !== "string" || !source.includes(deepCopy)) {
        onSkipped(`@node-red/registry ${version} is used as it is: large deployments are faster with ${testedVersion}`);
        return loaded;
      }
      return { ...loaded, source: source.replace(deepCopy, shallowCopy) };
    },
  });
}
