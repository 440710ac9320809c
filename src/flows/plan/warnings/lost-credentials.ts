import type { Configuration } from "../../configuration.ts";
import type { Finding } from "./finding.ts";

/**
 * Finds nodes of `current` that `next` has without some of their credentials, nodes that come back without them, and removed ones
 * whose credentials can't come back with them.
 */
export function findLostCredentials(current: Configuration, next: Configuration): readonly Finding[] {
  const nodes = new Map(next.flows.map((node) => [node.id, node]));
  const lost = current.flows.flatMap((node) => {
    const type = nodes.get(node.id)?.type;
    const remaining = type === undefined ? undefined : next.credentials.get(node.id);
    const names = namesOf(current, node.id).filter((name) => remaining?.has(name) !== true);
    if (names.length === 0 || (type === undefined && next.kept?.has(node.id) === true)) {
      return [];
    }
    const cause = type === undefined ? "it is removed" : `its type becomes ${JSON.stringify(type)}`;
    const message = type === node.type ? "it loses credentials" : `${cause}, and its credentials are lost`;
    return [{ node, message: `${message}: ${names.join(", ")}` }];
  });
  const missing = Array.from(next.missing ?? [], ([id, { type, rev, names }]) => {
    const node = nodes.get(id);
    const reason =
      node?.type === type
        ? `the history has no revision ${rev} any more`
        : `it had them with the type ${JSON.stringify(type)}`;
    const list = names.length === 0 ? "" : `: ${names.toSorted().join(", ")}`;
    return node === undefined
      ? []
      : [{ node, message: `it comes back without its credentials, because ${reason}${list}` }];
  });
  return [...lost, ...missing.flat()];
}

/** Finds nodes that `next` removes, whose credentials come back with them. */
export function findRemovedCredentials(current: Configuration, next: Configuration): readonly Finding[] {
  const ids = new Set(next.flows.map(({ id }) => id));
  return current.flows.flatMap((node) => {
    const names = namesOf(current, node.id);
    const rev = next.kept?.get(node.id)?.rev;
    if (names.length === 0 || rev === undefined || ids.has(node.id)) {
      return [];
    }
    const condition = `they come back if it is deployed again with this id and type, while revision ${rev} is in the history`;
    return [{ node, message: `its credentials are removed with it: ${names.join(", ")}; ${condition}` }];
  });
}

function namesOf({ credentials }: Configuration, id: string): readonly string[] {
  return [...(credentials.get(id)?.keys() ?? [])].toSorted();
}
