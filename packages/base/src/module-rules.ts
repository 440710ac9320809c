/** Which modules may be installed: names, in which * stands for any text, that a version range after an @ may follow. */
export type ModuleLists = { readonly allow: readonly string[]; readonly deny: readonly string[] };

type Rule = {
  readonly pattern: RegExp;
  readonly range: string | undefined;
  /** Where the first `*` is: the later, the more specific. */
  readonly wildcardAt: number;
  readonly length: number;
};

/**
 * True if a module may be installed. `satisfies` is for its version. Without one: true if any version of the module may be
 * installed.
 */
export function permitsModule(lists: ModuleLists, name: string, satisfies?: (range: string) => boolean): boolean {
  const deny = completeDeny(lists);
  // A range that is denied leaves other versions.
  const denied = satisfies === undefined ? deny.filter((entry) => splitRule(entry).range === undefined) : deny;
  const allowing = findRule(lists.allow, name, satisfies);
  const denying = findRule(denied, name, satisfies);
  if (denying === undefined || allowing === undefined) {
    return denying === undefined;
  }
  return allowing.wildcardAt === denying.wildcardAt
    ? allowing.length > denying.length
    : allowing.wildcardAt > denying.wildcardAt;
}

/** The deny list in Node-RED's form. Node-RED allows modules that are in neither list; here, a module must be in `allow`. */
export function completeDeny({ allow, deny }: ModuleLists): readonly string[] {
  return allow.includes("*") ? deny : [...deny, "*"];
}

/** The first rule that a module matches, as in Node-RED (`checkAgainstList` in @node-red/registry). */
function findRule(list: readonly string[], name: string, satisfies?: (range: string) => boolean): Rule | undefined {
  return list
    .map(parseRule)
    .find(({ pattern, range }) => pattern.test(name) && (range === undefined || (satisfies?.(range) ?? true)));
}

function parseRule(entry: string): Rule {
  const { name, range } = splitRule(entry);
  const at = name.indexOf("*");
  const source = name
    .split("*")
    .map((part) => part.replaceAll(/\W/g, "\\$&"))
    .join(".*");
  return { pattern: new RegExp(`^${source}$`), range, wildcardAt: at === -1 ? Infinity : at, length: name.length };
}

export function splitRule(entry: string): { readonly name: string; readonly range: string | undefined } {
  const at = entry.indexOf("@", 1);
  return at === -1
    ? { name: entry, range: undefined }
    : { name: entry.slice(0, at), range: entry.slice(at + 1) || undefined };
}
