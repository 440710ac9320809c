// The process of one drill, forked by run-drill.ts.
import { createContext, type Size } from "./context.ts";
import type { Result } from "./drill.ts";
import { drills } from "./drills.ts";

export type Message = { readonly progress: string } | { readonly result: Result };

const [name = "", size = "quick", seed = "0"] = process.argv.slice(2);
const report = (message: Message): void => void process.send?.(message);
const drill = drills.find((drill) => drill.name === name);
if (drill === undefined) {
  throw new Error(`there is no drill ${name}`);
}
report({
  result: await drill.run(createContext(name, size as Size, Number(seed), (progress) => report({ progress }))),
});
process.disconnect?.();
