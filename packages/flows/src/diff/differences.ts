import type { JsonValue } from "../json.ts";
import type { JsonPath } from "../json.ts";
import { isSameJson } from "../json.ts";
import { type CredentialSet, noCredentials } from "../credential-sets.ts";
import type { Container, NodeRole } from "../nodes.ts";

/** The changes from a base to a target, sufficient to recreate the target. */
export type FlowsDiff = {
  /** Containers with changes: in the order of the target, then containers that only the base has, then `global`. */
  readonly containers: readonly ContainerDiff[];
};

export type ContainerDiff = Container & {
  /** In the order of the target, removed nodes last. A tab or subflow is the first node of its own container. */
  readonly nodes: readonly NodeDiff[];
};

export type NodeDiff = {
  readonly id: string;
  /** Type, name and role in the target; in the base if the node is removed. */
  readonly type: string;
  readonly name: string | undefined;
  readonly role: NodeRole;
  readonly change: "added" | "removed" | "changed";
  /** The changed aspects, in the order of `aspects`; empty if the node is added or removed. */
  readonly aspects: readonly Aspect[];
  /** All properties of a node that is added or removed, the different ones of a node that is changed. */
  readonly properties: readonly PropertyChange[];
  /** The credentials of the node by name. */
  readonly credentials: CredentialNames;
  /**
   * The id of the node that precedes this one in the target; "" if none does. Undefined unless the node is added, or its place
   * in the order is changed.
   */
  readonly after: string | undefined;
};

/**
 * Parts of a node that can change. `position`: coordinates, and the size of a group, which the runtime ignores except
 * for a subflow's ports; `order`: its place in the document; `container`: its tab or subflow; `group`: its group, or
 * the members of a group; `wires`: wires and links.
 */
export type Aspect = (typeof aspects)[number];

export const aspects = ["position", "order", "container", "group", "wires", "properties", "credentials"] as const;

/** An undefined value means that the property is absent. */
export type PropertyChange = {
  /** Leads from the node to the value. */
  readonly path: JsonPath;
  readonly before: JsonValue | undefined;
  readonly after: JsonValue | undefined;
};

/** Names of credentials, sorted; never their values. */
export type CredentialNames = {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
};

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
    changed: names.filter((name) => before.has(name) && !isSameJson(before.get(name), after.get(name))),
  };
}

export function hasCredentialNames({ added, removed, changed }: CredentialNames): boolean {
  return added.length + removed.length + changed.length > 0;
}
