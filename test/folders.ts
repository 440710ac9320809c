import { globSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

/** What imports what, types included. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * The imports between the folders below `source`. A folder that has folders in it only holds them together: each of its own
 * files counts for itself.
 */
export function readFolderGraph(source: string): Graph {
  const files = globSync("**/*.{ts,tsx}", { cwd: source });
  const parents = new Set(files.map((file) => dirname(dirname(file))));
  const nodeOf = (file: string): string => (parents.has(dirname(file)) ? file : dirname(file));
  const graph = new Map<string, Set<string>>();
  for (const file of files) {
    const node = nodeOf(file);
    const imported = graph.get(node) ?? new Set();
    graph.set(node, imported);
    const text = readFileSync(join(source, file), "utf8");
    for (const [, specifier = ""] of text.matchAll(/\b(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)) {
      const target = relative(source, join(source, dirname(file), specifier));
      if (!target.startsWith("..") && nodeOf(target) !== node) {
        imported.add(nodeOf(target));
      }
    }
  }
  return graph;
}

/** A way from a node back to itself; undefined: there is none. */
export function findCycle(graph: Graph): string[] | undefined {
  const done = new Set<string>();
  const visit = (node: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(node)) {
      return [...path.slice(path.indexOf(node)), node];
    }
    if (done.has(node)) {
      return undefined;
    }
    for (const next of graph.get(node) ?? []) {
      const cycle = visit(next, [...path, node]);
      if (cycle !== undefined) {
        return cycle;
      }
    }
    done.add(node);
    return undefined;
  };
  for (const node of graph.keys()) {
    const cycle = visit(node, []);
    if (cycle !== undefined) {
      return cycle;
    }
  }
  return undefined;
}
