// The process of one drill, forked by run-drill.ts.
import { createContext, type RunOptions } from "./context.ts";
import type { Result } from "./drill.ts";
import { drills } from "./drills.ts";

export type Message = { readonly progress: string } | { readonly result: Result };

const [name, options = "{}"] = process.argv.slice(2);
const report = (message: Message): void => void process.send?.(message);
const drill = drills.find((drill) => drill.name === name);
if (drill === undefined) {
  throw new Error(`there is no drill ${name}`);
}
const progress = (text: string): void => report({ progress: text });
const context = createContext(drill.name, { ...(JSON.parse(options) as Omit<RunOptions, "progress">), progress });
report({ result: await drill.run(context) });
process.disconnect?.();
