import type { JsonValue } from "@bufbuild/protobuf";

/** A node as the runtime and the store know it: one flat JSON object, without credentials. */
export type FlowNode = { readonly id: string; readonly type: string; readonly [property: string]: JsonValue };

/** Credentials in clear: by node id, then by name. A Map, for a node may be called anything. */
export type CredentialSets = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** How much of the running configuration a deployment stops and starts. */
export type DeploymentType = "full" | "nodes" | "flows" | "reload";
