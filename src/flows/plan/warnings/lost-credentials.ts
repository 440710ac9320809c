import type { Configuration } from "../../configuration.ts";
import type { Finding } from "./finding.ts";

/** Finds nodes of `current` with credentials that `next` removes: with the node, or from it; and those that get another type. */
export function findLostCredentials(current: Configuration, next: Configuration): readonly Finding[] {
  const types = new Map(next.flows.map(({ id, type }) => [id, type]));
  return current.flows.flatMap((node) => {
    const type = types.get(node.id);
    const remaining = type === node.type ? next.credentials.get(node.id) : undefined;
    const before = current.credentials.get(node.id) ?? new Map<string, string>();
    const names = [...before.keys()].filter((name) => remaining?.has(name) !== true).toSorted();
    if (names.length === 0) {
      return [];
    }
    const cause = type === undefined ? "it is removed" : `its type becomes ${JSON.stringify(type)}`;
    const message = type === node.type ? "it loses credentials" : `${cause}, and its credentials are lost`;
    return [{ node, message: `${message}: ${names.join(", ")}` }];
  });
}
