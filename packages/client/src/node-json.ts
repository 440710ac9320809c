import { create, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import {
  type Node,
  type NodeCredentials,
  NodeCredentialsSchema,
  NodeSchema,
} from "../../../gen/flowgate/v1/flows_pb.ts";

/** A value is not a node. `path` leads from the node to the part that is wrong. */
export class NodeJsonError extends Error {
  readonly path: readonly string[];

  constructor(path: readonly string[], message: string) {
    super(message);
    this.name = "NodeJsonError";
    this.path = path;
  }
}

/** Reads a node of Node-RED or of the HTTP API, a flat object. Throws a NodeJsonError if it is none; the service checks its properties. */
export function nodeFromJson(json: JsonValue): Node {
  const { id, type, label, credentials, ...others } = asObject(json, [], "must be an object");
  const hasLabel = typeof label === "string";
  // Another label than a text is a property of some type of node.
  const properties: JsonObject = hasLabel || label === undefined ? others : { ...others, label };
  return create(NodeSchema, {
    id: asText(id, "id"),
    type: asText(type, "type"),
    ...(hasLabel && { label }),
    ...(credentials !== undefined && { credentials: nodeCredentialsFromJson(credentials, ["credentials"]) }),
    properties,
  });
}

export function nodeToJson({ id, type, label, properties }: Node): JsonObject {
  return { id, type, ...(label !== undefined && { label }), ...properties };
}

/** Reads the credentials of a node: texts by name, which a node of the type global-config can have in an object `map`. */
export function nodeCredentialsFromJson(json: JsonValue, path: readonly string[] = []): NodeCredentials {
  const credentials = create(NodeCredentialsSchema);
  for (const [name, value] of Object.entries(asObject(json, path, "must be an object with texts by name"))) {
    if (typeof value === "string") {
      credentials.values[name] = value;
    } else if (name === "map" && isObject(value)) {
      credentials.map = value;
    } else {
      throw new NodeJsonError([...path, name], "must be a text");
    }
  }
  return credentials;
}

function asText(value: JsonValue | undefined, name: string): string {
  if (typeof value !== "string") {
    throw new NodeJsonError([name], value === undefined ? "is missing: must be a text" : "must be a text");
  }
  return value;
}

function asObject(value: JsonValue, path: readonly string[], message: string): JsonObject {
  if (!isObject(value)) {
    throw new NodeJsonError(path, message);
  }
  return value;
}

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
