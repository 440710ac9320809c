import type { Credentials } from "../../gen/flowgate/v1/flows_pb.ts";
import type { CredentialSets, FlowNode } from "./configuration.ts";
import { findCredentialsViolation } from "./credentials-violation.ts";
import { prependKeyIfFound, invalidFlows, prependKey } from "./violation.ts";
import { findKeyViolation } from "./json-violation.ts";

/** Opens the encrypted form of credentials; throws `invalid_credentials` where it can't. */
export type Decrypt = (encrypted: string) => CredentialSets;

/** The credentials of one request. */
export type SubmittedCredentials = {
  /** Those that came inside nodes. */
  readonly inline: CredentialSets;
  /** What came beside the flows. */
  readonly given: Credentials | undefined;
};

export type CredentialsChange = SubmittedCredentials & {
  readonly flows: readonly FlowNode[];
  readonly current: CredentialSets;
  readonly decrypt: Decrypt;
};

/**
 * The credentials that a deployment leaves. First what came beside the flows replaces: encrypted all sets,
 * separate those of the nodes that it names. Then the inline ones merge into that, an empty
 * string removing one name. Sets of nodes that are not in the flows are dropped. A set that nothing
 * changed is the same Map as before, and so are all of them together.
 */
export function mergeCredentials({ flows, inline, given, current, decrypt }: CredentialsChange): CredentialSets {
  const replaced = given === undefined ? current : replaceSets(current, given, decrypt);
  const merged = new Map<string, ReadonlyMap<string, string>>();
  for (const { id } of flows) {
    const set = mergeSet(replaced.get(id), inline.get(id));
    if (set !== undefined && set.size > 0) {
      merged.set(id, set);
    }
  }
  const isSame = merged.size === current.size && merged.entries().every(([id, set]) => current.get(id) === set);
  return isSame ? current : merged;
}

function replaceSets(
  current: CredentialSets,
  { nodes, encrypted }: Credentials,
  decrypt: CredentialsChange["decrypt"],
): CredentialSets {
  const named = Object.entries(nodes);
  if (encrypted !== undefined) {
    if (named.length > 0) {
      throw invalidFlows({ path: ["credentials"], what: 'must be either "$" alone or sets by node id, not both' });
    }
    return decrypt(encrypted);
  }
  const sets = new Map(current);
  for (const [id, set] of named) {
    const violation = findKeyViolation(id) ?? prependKeyIfFound(id, findCredentialsViolation(set));
    if (violation !== undefined) {
      throw invalidFlows(prependKey("credentials", violation));
    }
    sets.set(id, new Map(Object.entries(set.values)));
  }
  return sets;
}

function mergeSet(
  set: ReadonlyMap<string, string> | undefined,
  inline: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, string> | undefined {
  if (inline === undefined || inline.size === 0) {
    return set;
  }
  const merged = new Map(set);
  for (const [name, value] of inline) {
    if (value === "") {
      merged.delete(name);
    } else {
      merged.set(name, value);
    }
  }
  return merged;
}
