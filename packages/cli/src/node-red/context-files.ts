import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { JsonValue } from "@bufbuild/protobuf";
import type { FlowNode } from "@flowgate/flows";
import { readIfExists } from "../flow-files/read-file.ts";
import { parseSource } from "../flow-files/source.ts";
import type { ImportReport } from "./report.ts";

/** A value of context, to be set when the flows run. */
export type ContextEntry = { readonly store: string; readonly scope: string; readonly value: JsonValue };

/** The values of a file, which is all of a scope. */
type ContextFile = { readonly file: string; readonly scope: string | undefined; readonly values: object };

/**
 * Reads the values that Node-RED's store `localfilesystem` keeps in a folder, for a store of this name. Those of flows that are not
 * imported are left out, as Node-RED would.
 */
export async function readContextFiles(
  folder: string,
  { base, store, flows }: { readonly base: string; readonly store: string; readonly flows: readonly FlowNode[] },
  report: ImportReport,
): Promise<ContextEntry[]> {
  const entries: ContextEntry[] = [];
  for (const { file, scope, values } of await readFiles(join(folder, base), base, flows)) {
    const keys = Object.keys(values);
    if (keys.length === 0) {
      continue;
    }
    if (scope === undefined) {
      const detail = `it is of a node in a subflow: stop the flows, and copy the file to runtime.dir/${file}`;
      report.add({ name: "context", file, outcome: "not_possible", detail });
      continue;
    }
    const named = keys.map((key) => ({ key, expression: toExpression(key) }));
    const lost = named.filter(({ expression }) => expression === undefined).map(({ key }) => key);
    for (const { key, expression } of named) {
      if (expression !== undefined) {
        const value = (values as Record<string, JsonValue>)[key] ?? null;
        entries.push({ store, scope: `${scope}/${expression}`, value });
      }
    }
    if (lost.length < keys.length) {
      const count = keys.length - lost.length;
      const detail = `${count} ${count === 1 ? "value" : "values"} in the store ${store}`;
      report.add({ name: "context", file, outcome: "taken_over", detail });
    }
    if (lost.length > 0) {
      const detail = `no expression can name ${lost.map((key) => JSON.stringify(key)).join(", ")}`;
      report.add({ name: "context", file, outcome: "not_possible", detail });
    }
  }
  return entries;
}

async function readFiles(folder: string, base: string, flows: readonly FlowNode[]): Promise<ContextFile[]> {
  const names = await readdir(folder, { recursive: true }).catch(() => []);
  const nodes = new Map(flows.map((node) => [node.id, node]));
  const files: ContextFile[] = [];
  for (const name of names.filter((each) => /^[^./][^/]*\/[^/]+\.json$/.test(each)).toSorted()) {
    const path = join(folder, name);
    const [owner = "", file = ""] = name.replace(/\.json$/, "").split("/");
    const isKnown = owner === "global" || nodes.has(owner);
    const bytes = isKnown ? await readIfExists(path) : undefined;
    const values: unknown = bytes && bytes.length > 0 ? parseSource(path, bytes).value : {};
    if (typeof values === "object" && values !== null && (file === "flow" || owner === "global" || nodes.has(file))) {
      files.push({ file: `${base}/${name}`, scope: scopeOf(owner, file, nodes), values });
    }
  }
  return files;
}

/** Undefined: it can't be named from outside. */
function scopeOf(owner: string, file: string, nodes: ReadonlyMap<string, FlowNode>): string | undefined {
  const encode = (id: string): string => id.replaceAll("/", "%2F");
  if (owner === "global") {
    return "global";
  }
  if (file === "flow") {
    return `flow/${encode(owner)}`;
  }
  return nodes.get(file)?.["z"] === owner ? `node/${encode(file)}` : undefined;
}

/** The property expression of a key. */
function toExpression(key: string): string | undefined {
  if (/^[a-z_]\w*$/i.test(key)) {
    return key;
  }
  const mark = ['"', "'"].find((each) => !key.includes(each));
  // The service decodes %2F.
  const isNameable = key !== "" && key !== "__proto__" && !/%2F/i.test(key);
  return mark === undefined || !isNameable ? undefined : `${mark}${key}${mark}`;
}
