import type { JsonValue } from "@bufbuild/protobuf";

/** A node as the runtime and the store use it: a flat JSON object without credentials. */
export type FlowNode = { readonly id: string; readonly type: string; readonly [property: string]: JsonValue };

/** Decrypted credentials by node id and name. Maps, because any string is a valid id or name. */
export type CredentialSets = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** By id of a removed node that had credentials: its type, and the newest revision that has them. The oldest removal is first. */
export type KeptCredentials = ReadonlyMap<string, { readonly type: string; readonly rev: string }>;

/** The flows of one revision with their credentials. */
export type Configuration = { readonly flows: readonly FlowNode[]; readonly credentials: CredentialSets };

/** Which nodes a deployment restarts. */
export type DeploymentType = "full" | "nodes" | "flows" | "reload";
