import type { Configuration } from "../../configuration.ts";
import type { Finding } from "./finding.ts";

/** Finds nodes of `current` with credentials that `next` removes, or to which it gives another type. */
export function findLostCredentials(current: Configuration, next: Configuration): readonly Finding[] {
  const types = new Map(next.flows.map(({ id, type }) => [id, type]));
  return current.flows.flatMap((node) => {
    const names = [...(current.credentials.get(node.id)?.keys() ?? [])].toSorted();
    const type = types.get(node.id);
    if (names.length === 0 || type === node.type) {
      return [];
    }
    const cause = type === undefined ? "it is removed" : `its type becomes ${JSON.stringify(type)}`;
    return [{ node, message: `${cause}, and its credentials are lost: ${names.join(", ")}` }];
  });
}
