import type { JsonValue } from "./json.ts";

/** A node as the runtime and the store use it: a flat JSON object without credentials. */
export type FlowNode = { readonly id: string; readonly type: string; readonly [property: string]: JsonValue };

/** Those that are deployed are strings; nodes can store others. */
export type CredentialValue = JsonValue;

/** Decrypted credentials by node id and name. Maps, because any string is a valid id or name. */
export type CredentialSets = ReadonlyMap<string, ReadonlyMap<string, CredentialValue>>;

/**
 * By id of a node that had credentials and was removed, or got another type: that type, the newest revision that has them, and some of
 * their names; none in revisions of an older version. The oldest removal is first.
 */
export type KeptCredentials = ReadonlyMap<
  string,
  { readonly type: string; readonly rev: string; readonly names: readonly string[] }
>;

/** The flows of one revision with their credentials. */
export type Configuration = {
  readonly flows: readonly FlowNode[];
  readonly credentials: CredentialSets;
  /** Those of nodes that are not in these flows, or have another type there. */
  readonly kept?: KeptCredentials | undefined;
  /** Those of nodes that come back with these flows, which can't be restored. */
  readonly missing?: KeptCredentials | undefined;
};

/** The credentials of the active revision. */
export type CurrentCredentials = { readonly credentials: CredentialSets; readonly kept: KeptCredentials };

export const deploymentTypeNames = ["full", "nodes", "flows", "reload"] as const;

/** Which nodes a deployment restarts. */
export type DeploymentType = (typeof deploymentTypeNames)[number];
