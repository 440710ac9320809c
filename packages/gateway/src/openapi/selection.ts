import type { DescMethod } from "@bufbuild/protobuf";
import { rulesOf } from "../routing/routes.ts";

/** A list of values for the RPCs that a selector matches: the full name of a package, service or RPC, or a prefix that ends with `.*`. */
export type Selected<Value> = readonly (Value & { readonly selector: string })[];

function matchesSelector(selector: string, method: DescMethod): boolean {
  const isMatch = (each: string): boolean => rulesOf(method, [{ selector: each }]).length > 0;
  return isMatch(selector) || (!selector.endsWith("*") && isMatch(`${selector}.*`));
}

/** The entry that applies to a method: the last one that matches it. */
export function lastSelected<Value>(list: Selected<Value>, method: DescMethod): Value | undefined {
  return list.findLast(({ selector }) => matchesSelector(selector, method));
}

export type SelectionOptions = {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly tagsOf: (method: DescMethod) => readonly string[];
  readonly isVisible: (method: DescMethod) => boolean;
};

/**
 * The RPCs to describe: selected by `include` (if it is empty, all) and not by `exclude`. Besides selectors, both can
 * have `tag:` with the name of a tag. Throws an Error for an entry that selects nothing, which may be misspelt.
 */
export function selectMethods(
  methods: readonly DescMethod[],
  { include, exclude, tagsOf, isVisible }: SelectionOptions,
): readonly DescMethod[] {
  const select = (option: string, entries: readonly string[]): ReadonlySet<DescMethod> => {
    const selected = entries.flatMap((entry) => {
      const tag = /^tag:(.*)$/s.exec(entry)?.[1];
      const matching = methods.filter((method) =>
        tag === undefined ? matchesSelector(entry, method) : tagsOf(method).includes(tag),
      );
      if (matching.length === 0) {
        throw new Error(`the option ${option} selects no RPC by "${entry}"; ${available(methods, tag, tagsOf)}`);
      }
      return matching;
    });
    return new Set(selected);
  };
  const included = include.length === 0 ? new Set(methods) : select("include", include);
  const excluded = select("exclude", exclude);
  return methods.filter((method) => included.has(method) && !excluded.has(method) && isVisible(method));
}

function available(
  methods: readonly DescMethod[],
  tag: string | undefined,
  tagsOf: SelectionOptions["tagsOf"],
): string {
  const names =
    tag === undefined ? methods.map(({ parent }) => parent.typeName) : methods.flatMap((method) => tagsOf(method));
  return `the ${tag === undefined ? "services" : "tags"} are ${[...new Set(names)].join(", ")}`;
}
