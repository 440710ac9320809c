import { type JsonObject, utf8Length } from "./json.ts";
import { FlowgateError } from "./errors.ts";
import type { CredentialSets, CredentialValue } from "./configuration.ts";
import { type CredentialSet, isSameSet } from "./credential-sets.ts";
import {
  type Violation,
  findKeyViolation,
  findTextViolation,
  invalidFlows,
  prependKey,
  prependKeyIfFound,
  quoteInput,
} from "./violation.ts";

/** Decrypts credentials in the `$` format. Throws `invalid_credentials` if that fails. */
export type Decrypt = (encrypted: string, findTypes: FindTypes) => CredentialSets;

/** Returns the types of those of the ids that are nodes of the flows. */
export type FindTypes = (ids: ReadonlySet<string>) => ReadonlyMap<string, string>;

/** The credentials of one node in a request: `map` are those that Node-RED nests in a member of this name. */
export type SubmittedSet = { readonly values: Readonly<Record<string, string>>; readonly map?: JsonObject | undefined };

/** The `credentials` of a request: sets by node id, or all of them encrypted as Node-RED does. */
export type SubmittedSets = {
  readonly nodes: Readonly<Record<string, SubmittedSet>>;
  readonly encrypted?: string | undefined;
};

/** The credentials of one request. */
export type SubmittedCredentials = {
  /** Credentials in the nodes. */
  readonly inline: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** The `credentials` field of the request. */
  readonly topLevel: SubmittedSets | undefined;
};

export type CredentialsChange = SubmittedCredentials & {
  /** Of the flows after the deployment, which are not read otherwise: parsing large ones takes long. */
  readonly findTypes: FindTypes;
  readonly current: CredentialSets;
  readonly decrypt: Decrypt;
};

/**
 * Returns the credentials after a deployment. First the top-level credentials replace current ones: encrypted credentials
 * replace all sets, separate ones the sets of the nodes that they name. Then the inline credentials are merged, where an
 * empty string removes a name, and the placeholder of Node-RED's editor keeps its value. Sets of nodes that are not in the flows are dropped. An unchanged set is the same Map as
 * before, and `current` is returned if nothing changed.
 */
export function mergeCredentials({ findTypes, inline, topLevel, current, decrypt }: CredentialsChange): CredentialSets {
  const replaced = topLevel === undefined ? current : replaceSets({ findTypes, current, decrypt }, topLevel);
  const merged = new Map<string, ReadonlyMap<string, CredentialValue>>();
  const isEncrypted = topLevel?.encrypted !== undefined;
  for (const id of findTypes(new Set([...replaced.keys(), ...inline.keys()])).keys()) {
    const set = mergeSet(replaced.get(id), inline.get(id));
    if (set !== undefined && set.size > 0) {
      // A revision of before can have more.
      const excess = isSameSet(set, current.get(id)) ? undefined : findExcess(set);
      if (excess !== undefined) {
        throw tooManyCredentials(
          isEncrypted,
          `those of the node ${quoteInput(id)} ${excess}, with what it has already`,
        );
      }
      merged.set(id, set);
    }
  }
  const isSame = merged.size === current.size && merged.entries().every(([id, set]) => current.get(id) === set);
  if (isSame) {
    return current;
  }
  const bytes = countBytes(merged);
  if (bytes > maxCredentialBytes && bytes > countBytes(current)) {
    const max = `${maxCredentialBytes / 1024 / 1024} MiB`;
    throw tooManyCredentials(isEncrypted, `those of all nodes together must have at most ${max}, with their names`);
  }
  return merged;
}

/** The values are searched for in each text that flows write, which takes 14 bytes of memory for each of their bytes. Of what nodes have stored, half of the last limit at most. */
const maxNames = 1_000;
const maxSetBytes = 256 * 1024;
const maxCredentialBytes = 4 * 1024 * 1024;

/** Why a node can't have these credentials; undefined: it can. */
function findExcess(set: NonNullable<CredentialSet>): string | undefined {
  if (set.size > maxNames) {
    return `must have at most ${maxNames} names`;
  }
  return bytesOf(set) > maxSetBytes ? `must have at most ${maxSetBytes / 1024} KiB, with their names` : undefined;
}

function tooManyCredentials(isEncrypted: boolean, message: string): FlowgateError {
  return isEncrypted
    ? new FlowgateError("invalid_credentials", `credentials.$: ${message}`)
    : invalidFlows({ path: ["credentials"], message });
}

function countBytes(sets: CredentialSets): number {
  return sets.values().reduce((sum, set) => sum + bytesOf(set), 0);
}

function bytesOf(set: NonNullable<CredentialSet>): number {
  let bytes = 0;
  for (const [name, value] of set) {
    bytes += utf8Length(name) + utf8Length(typeof value === "string" ? value : JSON.stringify(value));
  }
  return bytes;
}

function replaceSets(
  { findTypes, current, decrypt }: Pick<CredentialsChange, "findTypes" | "current" | "decrypt">,
  { nodes, encrypted }: SubmittedSets,
): CredentialSets {
  const named = Object.entries(nodes);
  if (encrypted !== undefined) {
    if (named.length > 0) {
      throw invalidFlows({ path: ["credentials"], message: 'must be either "$" alone or sets by node id, not both' });
    }
    return decrypt(encrypted, findTypes);
  }
  const types = findTypes(new Set(Object.keys(nodes)));
  const sets = new Map(current);
  for (const [id, set] of named) {
    const violation = findKeyViolation(id) ?? prependKeyIfFound(id, findCredentialsViolation(set, types.get(id)));
    if (violation !== undefined) {
      throw invalidFlows(prependKey("credentials", violation));
    }
    sets.set(id, parseCredentialSet(set));
  }
  return sets;
}

/** The placeholder that Node-RED's editor has for a stored password, which it does not know. */
export const placeholder = "__PWRD__";

export function mergeSet(set: CredentialSet, inline: CredentialSet): CredentialSet {
  if (inline === undefined || inline.size === 0) {
    return set;
  }
  const merged = new Map(set);
  for (const [name, value] of inline) {
    if (value === "") {
      merged.delete(name);
    } else if (value !== placeholder) {
      merged.set(name, value);
    }
  }
  return merged;
}

/** `type` is that of the node, undefined if there is no such node. Violations contain the names of credentials, never their values. */
export function findCredentialsViolation(
  { values, map }: SubmittedSet,
  type: string | undefined,
): Violation | undefined {
  if (map === undefined) {
    return findValuesViolation(values);
  }
  if (!acceptsMap(type)) {
    return { path: ["map"], message: "must be a string: only nodes of the type global-config have credentials in map" };
  }
  const [name] = Object.keys(values);
  return name === undefined
    ? prependKeyIfFound("map", findValuesViolation(flattenMap(map)))
    : { path: [name], message: "must be absent, or in map, since there are credentials in map" };
}

/** Converts valid credentials. */
export function parseCredentialSet({ values, map }: SubmittedSet): ReadonlyMap<string, string> {
  return new Map(Object.entries(map === undefined ? values : (flattenMap(map) as Record<string, string>)));
}

/** True if Node-RED nests the credentials of nodes of this type in `map`. */
export function acceptsMap(type: string | undefined): boolean {
  return type === undefined || type === "global-config";
}

/** Returns the credentials without the boolean `has_NAME` that Node-RED adds for some of them, for its editor. */
export function flattenMap(map: JsonObject): JsonObject {
  const isFlag = ([name, value]: [string, unknown]): boolean => name.startsWith("has_") && typeof value === "boolean";
  return Object.fromEntries(Object.entries(map).filter((entry) => !isFlag(entry)));
}

function findValuesViolation(values: JsonObject): Violation | undefined {
  for (const [name, value] of Object.entries(values)) {
    const violation =
      findKeyViolation(name) ??
      (typeof value === "string"
        ? prependKeyIfFound(name, findTextViolation(value))
        : prependKey(name, { path: [], message: "must be a string" }));
    if (violation !== undefined) {
      return violation;
    }
  }
  const excess = findExcess(new Map(Object.entries(values as Record<string, string>)));
  return excess === undefined ? undefined : { path: [], message: excess };
}
