import type { CredentialNames } from "./flows-diff.ts";

type CredentialSet = ReadonlyMap<string, string>;

const noCredentials: CredentialSet = new Map();
const unchanged: CredentialNames = { added: [], removed: [], changed: [] };

export function diffCredentialNames(
  before: CredentialSet = noCredentials,
  after: CredentialSet = noCredentials,
): CredentialNames {
  if (before === after) {
    return unchanged;
  }
  const names = [...after.keys()].toSorted();
  return {
    added: names.filter((name) => !before.has(name)),
    removed: [...before.keys()].filter((name) => !after.has(name)).toSorted(),
    changed: names.filter((name) => before.has(name) && before.get(name) !== after.get(name)),
  };
}

export function hasCredentialNames({ added, removed, changed }: CredentialNames): boolean {
  return added.length + removed.length + changed.length > 0;
}
