import type { Output } from "../output/output.ts";

/** Shows what is about to be deployed. With `-o`, stdout has the result only. */
export function showPreview({ format }: Output, text: string): void {
  const stream = format === undefined ? process.stdout : process.stderr;
  stream.write(`${text}\n`);
}
