import { readdir } from "node:fs/promises";
import { join, relative, sep } from "node:path";
import { readIfExists } from "../flow-files/read-file.ts";
import type { ImportReport } from "./report.ts";

/** An entry of the library of Node-RED's editor. */
export type LibraryEntry = {
  readonly type: string;
  readonly path: string;
  readonly text: string;
  readonly details: Readonly<Record<string, string>>;
};

/** A request has at most 1 MiB, with the text as JSON. */
const maxRequestBytes = 1024 * 1024;

/** Reads the entries in the folder `lib` of a user folder, with the properties that Node-RED keeps in the first lines of their files. */
export async function readLibrary(folder: string, report: ImportReport): Promise<LibraryEntry[]> {
  const root = join(folder, "lib");
  const entries: LibraryEntry[] = [];
  const found = await readdir(root, { recursive: true, withFileTypes: true }).catch(() => []);
  const paths = found
    .filter((entry) => !entry.isDirectory())
    .map((entry) => ({ isFile: entry.isFile(), path: relative(root, join(entry.parentPath, entry.name)) }))
    // Node-RED does not list hidden ones.
    .filter(({ path }) => path.includes(sep) && !path.split(sep).some((part) => part.startsWith(".")))
    .toSorted((one, other) => (one.path < other.path ? -1 : 1));
  for (const { path, isFile } of paths) {
    const problem = isFile
      ? await readEntry(join(root, path), path, entries)
      : "it is a link: put the file in its place";
    if (problem !== undefined) {
      report.add({ name: "library", file: join("lib", path), outcome: "not_possible", detail: problem });
    }
  }
  for (const [type, { length }] of Object.entries(Object.groupBy(entries, (entry) => entry.type)) as [
    string,
    LibraryEntry[],
  ][]) {
    const detail = `${length} ${length === 1 ? "entry" : "entries"} of the library of Node-RED's editor`;
    report.add({ name: "library", file: `lib/${type}/`, outcome: "taken_over", detail });
  }
  return entries;
}

/** Returns why the file can't be an entry; undefined: it was added to `entries`. */
async function readEntry(file: string, name: string, entries: LibraryEntry[]): Promise<string | undefined> {
  const bytes = await readIfExists(file).catch(() => undefined);
  if (bytes === undefined) {
    return "it can't be read: change its permissions";
  }
  const [type = "", ...parts] = name.split(sep);
  const { details, text } = splitHeader(bytes.toString("utf8"));
  if (type === "flows" && !isJson(text)) {
    return "it is not JSON";
  }
  const entry = { type, path: parts.join("/"), text, details: type === "flows" ? {} : details };
  if (Buffer.byteLength(JSON.stringify(entry)) > maxRequestBytes) {
    return "it is larger than 1 MiB";
  }
  entries.push(entry);
  return undefined;
}

/** The properties in the first lines, such as `// name: greet`, where a backslash and the end of a line are escaped, and the text behind them. */
function splitHeader(content: string): Pick<LibraryEntry, "details" | "text"> {
  const details: Record<string, string> = {};
  const lines = content.split("\n");
  let count = 0;
  for (const line of lines) {
    const [, name, value = ""] = /^\/\/ (\w+): (.*)/.exec(line) ?? [];
    if (name === undefined) {
      break;
    }
    details[name] = value.replaceAll(/\\([\\n])/g, (_, escaped) => (escaped === "n" ? "\n" : "\\"));
    count += 1;
  }
  return { details, text: lines.slice(count).join("\n") };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
