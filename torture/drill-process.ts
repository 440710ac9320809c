// The process of one drill, forked by run-drill.ts.
import { createContext, type RunOptions } from "./context.ts";
import type { Drill, Result } from "./drill.ts";

export type Message = { readonly progress: string } | { readonly result: Result };

const [name, options = "{}"] = process.argv.slice(2);
const report = (message: Message): void => void process.send?.(message);
// Not all of them: what they import takes a third of a second of CPU time.
const exported = (await import(`./drills/${name}.ts`)) as Readonly<Record<string, Drill>>;
const drill = Object.values(exported).find((each) => each.name === name);
if (drill === undefined) {
  throw new Error(`drills/${name}.ts exports no drill of this name`);
}
const progress = (text: string): void => report({ progress: text });
const context = createContext(drill.name, { ...(JSON.parse(options) as Omit<RunOptions, "progress">), progress });
report({ result: await drill.run(context) });
process.disconnect?.();
