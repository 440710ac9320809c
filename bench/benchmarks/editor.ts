import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { openFolder } from "../server.ts";
import { builtProgram } from "../service.ts";
import { measureStart } from "../start-up.ts";
import { formatSpread } from "../statistics.ts";
import { openEditor } from "../load/editor-page.ts";

type Starts = {
  readonly name: string;
  readonly nodeRed: { readonly port?: number; readonly editor?: boolean };
  readonly seconds: number[];
  readonly mebibytes: number[];
  /** After the editor was opened. */
  readonly opened: number[];
};

export const editor: Benchmark = {
  name: "editor",
  title: "Node-RED's editor: the start of the service and its memory at rest, without and with it",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const off = contender("without Node-RED's listener", {});
    const tools = contender("with the listener", { port: 0 });
    const on = contender("with the listener and the editor", { port: 0, editor: true });
    const entry = await builtProgram();
    await using dir = await openFolder();
    // Omits the first round, which fills the caches of the file system, and of V8.
    for (let round = 0; round <= Math.max(starts, rounds); round++) {
      for (const { nodeRed, seconds, mebibytes, opened } of [off, tools, on]) {
        const use = nodeRed.editor === true ? openEditor : undefined;
        const measured = await measureStart(entry, dir.path, { options: { nodeRed }, use });
        if (round > 0) {
          seconds.push(measured.seconds);
          mebibytes.push(measured.mebibytes);
          opened.push(...(measured.usedMebibytes === undefined ? [] : [measured.usedMebibytes]));
        }
      }
    }
    return {
      figures: [
        { title: "start to ready without Node-RED's listener", unit: "s", values: off.seconds },
        { title: "… with the listener and the editor", unit: "s", values: on.seconds },
        { title: "API process at rest without Node-RED's listener", unit: "MiB", values: off.mebibytes },
        { title: "… with the listener and the editor", unit: "MiB", values: on.mebibytes },
        { title: "… after the editor was opened", unit: "MiB", values: on.opened },
      ],
      rows: [off, tools, on].map(({ name, seconds, mebibytes, opened }) => ({
        "": name,
        "start to ready, s": formatSpread(seconds),
        "memory of the API process at rest, MiB": formatSpread(mebibytes),
        "… after the editor was opened": opened.length === 0 ? "" : formatSpread(opened),
      })),
      chart: [
        {
          title: "start to ready, s",
          bars: [off, tools, on].map(({ name, seconds }) => ({ label: name, values: seconds })),
        },
        {
          title: "resident memory at rest, MiB",
          bars: [
            ...[off, tools, on].map(({ name, mebibytes }) => ({ label: name, values: mebibytes })),
            { label: "… after it was opened", values: on.opened },
          ],
        },
      ],
    };
  },
};

function contender(name: string, nodeRed: Starts["nodeRed"]): Starts {
  return { name, nodeRed, seconds: [], mebibytes: [], opened: [] };
}
