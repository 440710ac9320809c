import { create, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { FieldMaskSchema, hasCustomJsonRepresentation } from "@bufbuild/protobuf/wkt";
import { isObject } from "../json/wide-integer.ts";
import type { Route, Variant } from "../routing/route.ts";
import { fieldRule } from "../schema/rules.ts";

/** Sets the FieldMask of a request message to the fields that the JSON of its body has. */
export type MaskSetter = (message: Message, body: unknown) => void;

/**
 * Compiles the setter of the FieldMask of a PATCH, as grpc-gateway's `allow_patch_feature`: for a body that is a message field,
 * if the request message has exactly one FieldMask. Undefined for other routes. The path and the query are read afterwards, so
 * that a mask of the client replaces this one.
 */
export function createMaskSetter({ method, httpMethod }: Route, { body }: Variant): MaskSetter | undefined {
  const { fields } = method.input;
  const bodyField = fields.find(({ name }) => name === body);
  const [mask, ...others] = fields.filter(({ message }) => message?.typeName === FieldMaskSchema.typeName);
  if (
    httpMethod !== "PATCH" ||
    bodyField?.fieldKind !== "message" ||
    hasCustomJsonRepresentation(bodyField.message) ||
    mask?.fieldKind !== "message" ||
    mask.oneof !== undefined ||
    others.length > 0
  ) {
    return undefined;
  }
  const keysOf = createKeyCache();
  const { message: root } = bodyField;
  return (message, json) => {
    const paths = new Set<string>();
    if (isObject(json)) {
      addPaths(paths, "", root, json, keysOf);
    }
    (message as Message & Record<string, unknown>)[mask.localName] = create(FieldMaskSchema, {
      paths: [...paths].toSorted(),
    });
  };
}

type Keys = {
  readonly byKey: ReadonlyMap<string, DescField>;
  /** The field for all other keys. */
  readonly inline: DescField | undefined;
};

/** Adds the paths of the fields, in proto names. Lists, maps and messages with a JSON form of their own end a path. */
function addPaths(
  paths: Set<string>,
  prefix: string,
  desc: DescMessage,
  json: Record<string, unknown>,
  keysOf: (desc: DescMessage) => Keys,
): void {
  const { byKey, inline } = keysOf(desc);
  for (const [key, value] of Object.entries(json)) {
    const field = byKey.get(key) ?? inline;
    if (field === undefined) {
      // Ignored by the option `ignore_unknown`.
      continue;
    }
    const path = prefix + field.name;
    if (
      field.fieldKind === "message" &&
      !hasCustomJsonRepresentation(field.message) &&
      isObject(value) &&
      Object.keys(value).length > 0
    ) {
      addPaths(paths, `${path}.`, field.message, value, keysOf);
    } else {
      paths.add(path);
    }
  }
}

function createKeyCache(): (desc: DescMessage) => Keys {
  const known = new Map<DescMessage, Keys>();
  return (desc) => {
    let keys = known.get(desc);
    if (keys === undefined) {
      const fields = desc.fields.filter((field) => !fieldRule(field).inline);
      const byKey = new Map(fields.map((field) => [field.name, field]));
      // A JSON name takes precedence over an equal proto name of another field.
      for (const field of fields) {
        byKey.set(field.jsonName, field);
      }
      keys = { byKey, inline: desc.fields.find((field) => fieldRule(field).inline) };
      known.set(desc, keys);
    }
    return keys;
  };
}
