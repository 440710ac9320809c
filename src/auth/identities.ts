import type { Principal } from "./principal.ts";

/** The permissions of a workload. */
export type IdentityRule = {
  /** A SPIFFE ID, or a prefix of SPIFFE IDs that ends in `/*`. */
  readonly id: string;
  readonly permissions: readonly string[];
};

/** Returns a lookup of the principal of a SPIFFE ID by its most specific rule; undefined: no rule matches. */
export function createIdentities(rules: readonly IdentityRule[]): (id: string) => Principal | undefined {
  const permissions = new Map(rules.map((rule) => [rule.id, rule.permissions]));

  return (id) => {
    let found = permissions.get(id);
    for (
      let at = id.lastIndexOf("/");
      found === undefined && at >= "spiffe://".length;
      at = id.lastIndexOf("/", at - 1)
    ) {
      found = permissions.get(`${id.slice(0, at)}/*`);
    }
    return found === undefined ? undefined : { username: id, permissions: found };
  };
}
