import type { Configuration } from "../configuration.ts";
import { nameOf } from "../node-role.ts";
import type { SideChange } from "./merge-result.ts";
import { changeOf, readStates } from "./node-state.ts";

/** A node that one or both sides changed. */
export type SideChanges = {
  readonly nodeId: string;
  readonly type: string;
  /** The name that the editor shows, if the node has one. */
  readonly name: string | undefined;
  readonly ours: SideChange;
  readonly theirs: SideChange;
};

/** Lists what two changes of one configuration have changed, node by node. */
export function compareSides(base: Configuration, ours: Configuration, theirs: Configuration): SideChanges[] {
  const states = { base: readStates(base), ours: readStates(ours), theirs: readStates(theirs) };
  const ids = new Set([...states.base.keys(), ...states.theirs.keys(), ...states.ours.keys()]);
  return [...ids].flatMap((id) => {
    const [before, our, their] = [states.base.get(id), states.ours.get(id), states.theirs.get(id)];
    const changes = { ours: changeOf(before, our), theirs: changeOf(before, their) };
    const node = (our ?? their ?? before)?.node;
    return node === undefined || (changes.ours === "none" && changes.theirs === "none")
      ? []
      : [{ nodeId: id, type: node.type, name: nameOf(node), ...changes }];
  });
}
