import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const file = "/@node-red/registry/lib/externalModules.js";
const testedVersion = "5.0.7";
const deepCopy = "let nodes = clone(flowConfig);";
const shallowCopy = "let nodes = [...flowConfig];";

/**
 * Replaces one copy in the flow runtime. To be called before the runtime is loaded.
 *
 * At each deployment `checkFlowDependencies` copies every node in depth, and then only reads the copies and takes them
 * off the list: a copy of the list does. The source is changed as it is loaded, in this version of that file alone;
 * `skipped` is called with the reason where it is another one, and then nothing is changed.
 */
export function avoidDeepFlowCopy(skipped: (reason: string) => void): void {
  const hooks = registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!url.endsWith(file)) return loaded;
      hooks.deregister();
      const { version } = JSON.parse(readFileSync(new URL("../package.json", url), "utf8")) as { version: string };
      const { source } = loaded;
      if (version !== testedVersion || typeof source !== "string" || !source.includes(deepCopy)) {
        skipped(`@node-red/registry ${version} is used as it is: large deployments are faster with ${testedVersion}`);
        return loaded;
      }
      return { ...loaded, source: source.replace(deepCopy, shallowCopy) };
    },
  });
}
