import type { CredentialSets, CredentialValue } from "./configuration.ts";
import { isSameJson, visitTexts } from "./json.ts";

/** The credentials of a node by name; undefined: it has none. */
export type CredentialSet = ReadonlyMap<string, CredentialValue> | undefined;

export const noCredentials: ReadonlyMap<string, CredentialValue> = new Map();

export function isSameSet(one: CredentialSet = noCredentials, other: CredentialSet = noCredentials): boolean {
  return one.size === other.size && one.entries().every(([name, value]) => isSameJson(other.get(name), value));
}

/** Visits the texts in credentials. */
export function visitCredentials(sets: CredentialSets, visit: (text: string) => void): void {
  sets
    .values()
    .flatMap((set) => set.values())
    .forEach((value) => visitTexts(value, visit));
}

/** The ids of the nodes whose credentials differ, removed ones included. */
export function changedCredentials(before: CredentialSets, after: CredentialSets): ReadonlySet<string> {
  if (before === after) {
    return new Set();
  }
  const ids = new Set([...before.keys(), ...after.keys()]);
  return new Set(ids.values().filter((id) => !isSameSet(before.get(id), after.get(id))));
}
