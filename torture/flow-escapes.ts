import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { deploy, readRuntime } from "../test/e2e/deploy.ts";
import { endpoint, functionNode, type Node, tab } from "../test/e2e/flow-builders.ts";
import { type Service, startService } from "../test/e2e/service.ts";
import { escape } from "../test/runtime/flow-builders.ts";
import { plantedCode, writeFiles } from "../test/runtime/planted-code.ts";
import type { Context } from "./context.ts";

/** A way in which flows try to get what only the operator has. */
export type FlowEscape = {
  readonly name: string;
  attempt(context: Context): Promise<Attempt>;
  /** The same check applied to a fault that is planted; returns what it found. */
  readonly control: { readonly planted: string; find(context: Context): Promise<readonly string[]> };
};

type Attempt = {
  /** How often the flows have tried. The drill is void if it is 0. */
  readonly tries: number;
  /** What they have gained: empty if they failed. */
  readonly gained: readonly string[];
};

export const flowEscapes: readonly FlowEscape[] = [
  {
    name: "code for the next start",
    attempt: ({ createFolder }) => leaveCode(createFolder, async () => {}),
    control: {
      planted: "a module in the folder of modules",
      async find({ createFolder }) {
        const { gained } = await leaveCode(createFolder, ({ dataDir }) =>
          writeFiles(join(dataDir, "modules"), plantedCode),
        );
        return gained;
      },
    },
  },
];

/** Flows write code, then are replaced, and the runtime is restarted. Returns what it has loaded. */
async function leaveCode(
  createFolder: Context["createFolder"],
  plant: (service: Service) => Promise<void>,
): Promise<Attempt> {
  await using service = await startService({ dataDir: await createFolder() });
  await deploy(service, {
    flows: hostile(`for (const [path, content] of Object.entries(${JSON.stringify(plantedCode)})) {
      load("fs").mkdirSync(load("path").dirname(path), { recursive: true });
      load("fs").writeFileSync(path, content);
    }`),
  });
  const folder = join(service.dataDir, "runtime");
  const written = await Promise.all(Object.keys(plantedCode).map((path) => readFile(join(folder, path), "utf8")));
  await plant(service);
  await deploy(service, { flows: endpoint("/ok", `msg.payload = "ok"`) });
  await service.send("POST", "/runtime:restart");
  const { state } = await readRuntime(service);
  if (state !== "running") throw new Error(`after the restart the runtime is ${state}`);
  const loaded = await readFile(join(folder, "loaded"), "utf8").catch(() => "");
  const places = loaded.split("\n").filter((place) => place !== "");
  return { tries: written.length, gained: places.map((place) => `code was loaded from ${place}`) };
}

/** Flows that run the code when they start, with `host` (process) and `load` (of built-in modules). */
function hostile(code: string): Node[] {
  const initialize = `${escape} const load = (name) => host.getBuiltinModule(name); ${code}`;
  return [tab("hostile"), functionNode("hostile code", { z: "hostile", initialize })];
}
