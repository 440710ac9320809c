import type { Fields } from "@flowgate/base/fields";

/** The packages whose nodes those of a package need, as its package.json says; undefined if that is not a list of names. */
export function readNodeDependencies({ "node-red": section }: Fields): readonly string[] | undefined {
  const { dependencies = [] } = Object(section) as { readonly dependencies?: unknown };
  return Array.isArray(dependencies) && dependencies.every((name) => typeof name === "string")
    ? dependencies
    : undefined;
}

/**
 * Sorts packages so that each comes after those whose nodes it needs. Without the packages of a circle, one of which is returned too, and
 * those that need them.
 */
export function sortByNodeDependencies(packages: ReadonlyMap<string, readonly string[]>): {
  readonly sorted: readonly string[];
  /** Begins and ends with the same name. */
  readonly circle: readonly string[] | undefined;
} {
  const users = new Map<string, string[]>();
  const unsorted = new Map<string, ReadonlySet<string>>();
  const missing = new Map<string, number>();
  const sorted: string[] = [];
  for (const [name, dependencies] of packages) {
    const known = new Set(dependencies.filter((each) => packages.has(each)));
    unsorted.set(name, known);
    missing.set(name, known.size);
    for (const each of known) {
      users.getOrInsertComputed(each, () => []).push(name);
    }
    if (known.size === 0) {
      sorted.push(name);
    }
  }
  // Grows meanwhile.
  for (const name of sorted) {
    unsorted.delete(name);
    for (const user of users.get(name) ?? []) {
      const left = (missing.get(user) ?? 0) - 1;
      missing.set(user, left);
      if (left === 0) {
        sorted.push(user);
      }
    }
  }
  return { sorted, circle: findCircle(unsorted) };
}

/** Each of these packages needs another one of them, or itself. */
function findCircle(packages: ReadonlyMap<string, ReadonlySet<string>>): readonly string[] | undefined {
  const path = new Set<string>();
  let [name] = [...packages.keys()].toSorted();
  while (name !== undefined && !path.has(name)) {
    path.add(name);
    name = packages
      .get(name)
      ?.values()
      .find((each) => packages.has(each));
  }
  return name === undefined ? undefined : [...[...path].slice([...path].indexOf(name)), name];
}
