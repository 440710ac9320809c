import { hash } from "node:crypto";
import { relative } from "node:path";
import type { CodeSplittingNameFunction, ModuleInfo } from "rolldown";

type ModuleGraph = { getModuleInfo(id: string): ModuleInfo | null };

/** What the service loads at each start, besides what these import. */
const loadedAtStart: ReadonlySet<string> = new Set([
  "src/cli/run.ts",
  "src/cli/service/serve.ts",
  "src/cli/config-file.ts",
  "src/options/parse.ts",
  "src/app/gateway.ts",
  "src/app/mount.ts",
  "src/server/open-server.ts",
  "src/store/sqlite/adapter.ts",
  "src/telemetry/metrics.ts",
]);

/** What only the service loads, in addition to that. */
const partOfService = /^src\/(?:index\.ts$|(?:app|auth|node-red|server|telemetry)\/)/;

/**
 * Names the files of the modules that each start of the service loads, so that these are few: by default, a module that one more part
 * imports is in another file, and a start loads 130 of them. What runs without the service, as a command, a thread or a process, loads
 * nothing more than it imports: the modules of a file are imported by the same of these.
 */
export function joinModules(root: string, entries: readonly string[]): CodeSplittingNameFunction {
  let startsOf: ReadonlyMap<string, readonly string[]> | undefined;
  return (id, graph) => {
    startsOf ??= findStarts(root, entries, graph);
    const starts = startsOf.get(id) ?? [];
    if (!starts.some((start) => loadedAtStart.has(start))) {
      return null;
    }
    const others = starts.filter((start) => !partOfService.test(start));
    return others.length === 0 ? "service" : `service-${hash("sha1", others.join("\n")).slice(0, 6)}`;
  };
}

/** The entry points and dynamically imported modules that import each module, also indirectly. */
function findStarts(
  root: string,
  entries: readonly string[],
  graph: ModuleGraph,
): ReadonlyMap<string, readonly string[]> {
  const startsOf = new Map<string, string[]>();
  const starts = new Set(entries);
  // Dynamically imported modules are added meanwhile.
  for (const start of starts) {
    const reached = new Set([start]);
    for (const id of reached) {
      const { importedIds = [], dynamicallyImportedIds = [] } = graph.getModuleInfo(id) ?? {};
      importedIds.forEach((each) => reached.add(each));
      dynamicallyImportedIds.forEach((each) => starts.add(each));
      startsOf.set(id, [...(startsOf.get(id) ?? []), relative(root, start)]);
    }
  }
  return startsOf;
}
