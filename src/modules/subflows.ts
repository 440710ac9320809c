import { dirname, join } from "node:path";
import { type Fields, isFields } from "@flowgate/base/fields";
import { isWithin } from "../runtime/folders.ts";
import { readText } from "@flowgate/base/read-text";

/** A subflow that a module defines, as Node-RED exports it, and the type of its nodes. */
export type ModuleSubflow = { readonly type: string; readonly definition: Fields };

const maxProgramBytes = 256 * 1024;
const maxDefinitionBytes = 4 * 1024 * 1024;
const maxSubflows = 50;
const maxTypeChars = 200;

/**
 * Reads the subflows that a program of a module registers as node types. Nothing is executed: they are in the JSON files that its text names,
 * as Node-RED's documentation has it ("Packaging a Subflow module"). In the order of the text, each once.
 */
export async function readSubflows(moduleDir: string, program: string): Promise<ModuleSubflow[]> {
  const text = await readText(program, maxProgramBytes);
  if (text?.includes("registerSubflow") !== true) {
    return [];
  }
  const subflows = new Map<string, ModuleSubflow>();
  for (const path of new Set(findFiles(text))) {
    const file = join(dirname(program), path);
    const subflow = isWithin(moduleDir, file) ? parseSubflow(await readText(file, maxDefinitionBytes)) : undefined;
    if (subflow !== undefined && !subflows.has(subflow.type)) {
      subflows.set(subflow.type, subflow);
    }
    if (subflows.size >= maxSubflows) {
      break;
    }
  }
  return [...subflows.values()];
}

const maxFiles = 100;

/** The paths of JSON files in the text of a program: literals, also those that `path.join` has the parts of, and what `require` loads. */
function findFiles(text: string): string[] {
  const paths: string[] = [];
  let parts: string[] = [];
  let end = -1;
  for (const { 1: literal = "", 0: match, index } of text.matchAll(/["'`]([^"'`\n]{1,200})["'`]/g)) {
    const before = end === -1 ? "" : text.slice(end, Math.min(index, end + maxGapChars));
    parts = /^\s*,\s*$/.test(before) ? [...parts.slice(-maxParts), literal] : [literal];
    end = index + match.length;
    if (literal.endsWith(".json")) {
      paths.push(join(...parts));
    } else if (/^\.\.?\//.test(literal) && /require\(\s{0,9}$/.test(text.slice(Math.max(0, index - 20), index))) {
      paths.push(`${literal}.json`);
    }
    if (paths.length >= maxFiles) {
      break;
    }
  }
  return paths;
}

const maxGapChars = 100;
const maxParts = 8;

/** Undefined: it is not a subflow. */
function parseSubflow(text: string | undefined): ModuleSubflow | undefined {
  let definition: unknown;
  try {
    definition = JSON.parse(text ?? "");
  } catch {
    return undefined;
  }
  if (!isFields(definition) || definition["type"] !== "subflow") {
    return undefined;
  }
  const { meta, id } = definition;
  const named = isFields(meta) ? meta["type"] : undefined;
  const type = typeof named === "string" && named !== "" ? named : `sf:${String(id)}`;
  return type.length <= maxTypeChars ? { type, definition } : undefined;
}
