import { title } from "./help.ts";

/** The examples at the end of a command's help: command lines, and what each one does. */
export function examples(...rows: readonly (readonly [line: string, purpose: string])[]): string {
  const width = Math.max(...rows.map(([line]) => line.length));
  return `\n${title("Examples:")}\n${rows.map(([line, purpose]) => `  ${line.padEnd(width)}  # ${purpose}`).join("\n")}`;
}
