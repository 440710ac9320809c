import semver from "semver";
import type { ModuleSpec } from "./spec.ts";

/** Which added modules may be loaded: names, in which `*` stands for any characters, each with or without a range of versions. */
export type ModuleLists = { readonly allow: readonly string[]; readonly deny: readonly string[] };

type Rule = {
  readonly pattern: RegExp;
  readonly range: string | undefined;
  /** Where the first `*` is: the later, the more specific. */
  readonly wildcardAt: number;
  readonly length: number;
};

/** Whether an entry of a list is one that `parseRule` understands. */
export function isModuleRule(entry: string): boolean {
  const { name, range } = splitRule(entry);
  return /^(?:@[\w.~*-]+\/)?[\w~*][\w.~*-]*$/.test(name) && (range === undefined || semver.validRange(range) !== null);
}

/** Whether a module may be installed. Without a version: whether any of its versions may be. */
export function isAllowed(lists: ModuleLists, name: string, version?: string): boolean {
  const deny = completeDeny(lists);
  // A range that is denied leaves other versions.
  const denied = version === undefined ? deny.filter((entry) => splitRule(entry).range === undefined) : deny;
  const allowing = findRule(lists.allow, name, version);
  const denying = findRule(denied, name, version);
  if (denying === undefined || allowing === undefined) {
    return denying === undefined;
  }
  return allowing.wildcardAt === denying.wildcardAt
    ? allowing.length > denying.length
    : allowing.wildcardAt > denying.wildcardAt;
}

/** What is denied in the form of Node-RED, which allows what neither list names: here, what `allow` does not name is denied. */
export function completeDeny({ allow, deny }: ModuleLists): readonly string[] {
  return allow.includes("*") ? deny : [...deny, "*"];
}

/**
 * The lists for modules of function nodes, whose versions Node-RED does not compare: those that are installed are named by whether their
 * version is permitted. An entry that denies some versions only would deny all. In the form of Node-RED.
 */
export function listsByName(lists: ModuleLists, installed: readonly ModuleSpec[]): ModuleLists {
  const deny = completeDeny(lists);
  const [permitted, refused] = [true, false].map((isPermitted) =>
    installed.filter(({ name, version }) => isAllowed(lists, name, version) === isPermitted).map(({ name }) => name),
  );
  const isUnversioned = (entry: string): boolean => splitRule(entry).range === undefined;
  return {
    allow: [...(permitted ?? []), ...lists.allow],
    deny: [...(refused ?? []), ...deny.filter(isUnversioned)],
  };
}

/** The first rule that a module matches, as in Node-RED (`checkAgainstList` in @node-red/registry). */
function findRule(list: readonly string[], name: string, version: string | undefined): Rule | undefined {
  return list
    .map(parseRule)
    .find(
      ({ pattern, range }) =>
        pattern.test(name) && (range === undefined || version === undefined || semver.satisfies(version, range)),
    );
}

function parseRule(entry: string): Rule {
  const { name, range } = splitRule(entry);
  const at = name.indexOf("*");
  const source = name
    .split("*")
    .map((part) => RegExp.escape(part))
    .join(".*");
  return { pattern: new RegExp(`^${source}$`), range, wildcardAt: at === -1 ? Infinity : at, length: name.length };
}

function splitRule(entry: string): { readonly name: string; readonly range: string | undefined } {
  const at = entry.indexOf("@", 1);
  return at === -1
    ? { name: entry, range: undefined }
    : { name: entry.slice(0, at), range: entry.slice(at + 1) || undefined };
}
