import type { JsonObject } from "@bufbuild/protobuf";
import type { NodeCredentials } from "../../gen/flowgate/v1/flows_pb.ts";
import { prependKeyIfFound, type Violation, prependKey } from "./violation.ts";
import { findKeyViolation, findTextViolation } from "./json-violation.ts";

/** The credentials of one node in a request. */
type SubmittedSet = Pick<NodeCredentials, "values" | "map">;

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

/** Whether Node-RED nests the credentials of nodes of this type in `map`. */
export function acceptsMap(type: string | undefined): boolean {
  return type === undefined || type === "global-config";
}

/**
 * Returns the credentials in the `map` of a `global-config` node. Node-RED adds a boolean `has_NAME` for each of them, for its
 * editor.
 */
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
  return undefined;
}
