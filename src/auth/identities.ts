import type { Principal } from "./principal.ts";

/** What a workload may do. */
export type IdentityRule = {
  /** A SPIFFE ID; one that ends in `/*` is of all that begin like it. */
  readonly id: string;
  readonly permissions: readonly string[];
};

/** Gives the principal of a SPIFFE ID by the most specific of these rules; undefined where none is of it. */
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
