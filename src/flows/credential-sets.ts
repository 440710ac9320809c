import type { CredentialSets } from "./configuration.ts";

/** The credentials of a node by name; undefined: it has none. */
export type CredentialSet = ReadonlyMap<string, string> | undefined;

export const noCredentials: ReadonlyMap<string, string> = new Map();

export function isSameSet(one: CredentialSet = noCredentials, other: CredentialSet = noCredentials): boolean {
  return one.size === other.size && one.entries().every(([name, value]) => other.get(name) === value);
}

/** The ids of the nodes whose credentials differ, removed ones included. */
export function changedCredentials(before: CredentialSets, after: CredentialSets): ReadonlySet<string> {
  if (before === after) {
    return new Set();
  }
  const ids = new Set([...before.keys(), ...after.keys()]);
  return new Set(ids.values().filter((id) => !isSameSet(before.get(id), after.get(id))));
}
