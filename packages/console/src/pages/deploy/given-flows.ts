import { create, fromJson, type JsonObject, type JsonValue, toBinary } from "@bufbuild/protobuf";
import {
  type Credentials,
  CredentialsSchema,
  type FlowModule,
  nodeCredentialsFromJson,
  nodeFromJson,
  SetFlowsRequestSchema,
} from "@flowgate/client";

export type Prepared = {
  /** The fields of the requests that contain them, encoded: `flows` and `credentials`. */
  readonly fields: Blob;
  /** The revision that they were made from, if the text names it. */
  readonly rev: string | undefined;
  readonly modules: readonly FlowModule[];
};

/**
 * Reads an array of nodes, as Node-RED exports it, or an object with `flows` and perhaps `rev`, `credentials` and `modules`, as the API
 * returns it. Throws an error if it is something else, which the service explains better.
 */
export function readFlows(text: string): Prepared {
  // Only the source of a number says whether it is exact.
  const value = JSON.parse(text, /\d{16}/.test(text) ? assertExact : undefined) as JsonValue;
  const { flows, credentials, ...others } = Array.isArray(value) ? { flows: value } : asObject(value);
  if (!Array.isArray(flows)) {
    throw new TypeError("flows must be an array");
  }
  const request = create(SetFlowsRequestSchema, {
    flows: flows.map((node) => nodeFromJson(node)),
    ...(credentials !== undefined && { credentials: readCredentials(asObject(credentials)) }),
  });
  const { rev, modules } = fromJson(SetFlowsRequestSchema, pick(others, ["rev", "modules"]));
  return { fields: new Blob([toBinary(SetFlowsRequestSchema, request)]), rev, modules };
}

function readCredentials({ $: encrypted, ...nodes }: JsonObject): Credentials {
  const read = Object.entries(nodes).map(([id, set]) => [id, nodeCredentialsFromJson(set ?? null)] as const);
  if (encrypted !== undefined && typeof encrypted !== "string") {
    throw new TypeError("encrypted credentials must be a text");
  }
  return create(CredentialsSchema, { nodes: Object.fromEntries(read), ...(encrypted !== undefined && { encrypted }) });
}

function asObject(value: JsonValue): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError("must be an object");
  }
  return value;
}

function pick(object: JsonObject, keys: readonly string[]): JsonObject {
  const unknown = Object.keys(object).find((key) => !keys.includes(key));
  if (unknown !== undefined) {
    throw new TypeError(`unknown key ${unknown}`);
  }
  return object;
}

/** A reviver that refuses integers which a double does not represent. Older browsers do not pass the source. */
function assertExact(_key: string, value: unknown, context?: { readonly source?: string }): unknown {
  const { source = "" } = context ?? {};
  if (typeof value === "number" && /^-?\d+$/.test(source) && BigInt(source) !== BigInt(value)) {
    throw new TypeError(`${source} can't be represented exactly`);
  }
  return value;
}
