import { realpath } from "node:fs/promises";
import type { FlowNode } from "../../flows/configuration.ts";
import { type FileFormat, formatNodes } from "./format-nodes.ts";
import { writeTextFile } from "./write-file.ts";

/** Writes all nodes in their order to one file, without credentials. The format is that of its extension unless it is given. */
export async function exportFile(path: string, flows: readonly FlowNode[], format?: FileFormat): Promise<void> {
  // A symbolic link stays one.
  const target = await realpath(path).catch(() => path);
  await writeTextFile(target, formatNodes(flows, format ?? formatOf(path)));
}

/** JSON for `.json`, YAML for all other names. */
export function formatOf(path: string): FileFormat {
  return /\.json$/i.test(path) ? "json" : "yaml";
}
