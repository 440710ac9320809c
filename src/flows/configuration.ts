import type { JsonValue } from "@bufbuild/protobuf";

/** A node as the runtime and the store use it: a flat JSON object without credentials. */
export type FlowNode = { readonly id: string; readonly type: string; readonly [property: string]: JsonValue };

/** Decrypted credentials by node id and name. Maps, because any string is a valid id or name. */
export type CredentialSets = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** The flows of one revision with their credentials. */
export type Configuration = { readonly flows: readonly FlowNode[]; readonly credentials: CredentialSets };

/** Which nodes a deployment restarts. */
export type DeploymentType = "full" | "nodes" | "flows" | "reload";
