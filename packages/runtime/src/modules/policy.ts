import semver from "semver";
import type { ModuleSpec } from "@flowgate/base/module-names";
import { completeDeny, type ModuleLists, permitsModule, splitRule } from "@flowgate/base/module-rules";

/** True if an entry of a list is one that `parseRule` understands. */
export function isModuleRule(entry: string): boolean {
  const { name, range } = splitRule(entry);
  return /^(?:@[\w.~*-]+\/)?[\w~*][\w.~*-]*$/.test(name) && (range === undefined || semver.validRange(range) !== null);
}

/** True if a module may be installed. Without a version: true if any of its versions may be. */
export function isAllowed(lists: ModuleLists, name: string, version?: string): boolean {
  const satisfies = version === undefined ? undefined : (range: string) => semver.satisfies(version, range);
  return permitsModule(lists, name, satisfies);
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
  return { allow: [...(permitted ?? []), ...lists.allow], deny: [...(refused ?? []), ...deny.filter(isUnversioned)] };
}
