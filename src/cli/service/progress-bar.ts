import type { CopyProgress } from "../../store/copy/copy-tables.ts";
import type { Environment } from "./read-input.ts";

export interface ProgressBar {
  show(progress: CopyProgress): void;
  clear(): void;
}

const barWidth = 30;

/** Draws a bar in the current line of a terminal. Nothing is written to other streams, and with NO_COLOR. */
export function createProgressBar(
  stream: Pick<NodeJS.WriteStream, "isTTY" | "write">,
  environment: Environment,
): ProgressBar {
  const isShown = stream.isTTY && (environment["NO_COLOR"] ?? "") === "";
  let shown = "";

  function write(line: string): void {
    if (isShown && line !== shown) {
      // Only a carriage return, which all terminals understand. Spaces replace what was longer.
      stream.write(`\r${line.padEnd(shown.length)}${line === "" ? "\r" : ""}`);
      shown = line;
    }
  }

  return {
    show: (progress) => write(format(progress)),
    clear: () => write(""),
  };
}

function format({ phase, done, total }: CopyProgress): string {
  const part = total === 0 ? 1 : done / total;
  const bar = "#".repeat(Math.floor(part * barWidth)).padEnd(barWidth, "-");
  const percent = `${Math.floor(part * 100)}%`.padStart(4);
  return `${phase === "copying" ? "Copying " : "Checking"} [${bar}] ${percent} of ${total} rows`;
}
