import { create, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { type FieldMask, FieldMaskSchema, hasCustomJsonRepresentation } from "@bufbuild/protobuf/wkt";
import { fits } from "../../../json/read-members.ts";
import { isObject } from "../../../json/object.ts";
import type { Route, Variant } from "../../../routing/route.ts";
import { fieldRule } from "../../../schema/rules.ts";

/** Sets the FieldMask of a request message to the fields that the JSON of its body has. */
export type MaskSetter = (message: Message, body: unknown) => void;

/**
 * Compiles the setter of the FieldMask of a PATCH, as grpc-gateway's `allow_patch_feature`: for a body that is a message field,
 * if the request message has exactly one FieldMask. Undefined for other routes. The path and the query are read afterwards, so
 * that a mask of the client replaces this one.
 */
export function createMaskSetter(route: Route, variant: Variant): MaskSetter | undefined {
  const found = findMask(route, variant);
  if (found === undefined) {
    return undefined;
  }
  const keysOf = createKeyCache();
  const { mask, root } = found;
  return (message, json) => {
    const paths = new Set<string>();
    if (isObject(json)) {
      addPaths(paths, "", root, json, keysOf);
    }
    valuesOf(message)[mask.localName] = create(FieldMaskSchema, { paths: [...paths].toSorted() });
  };
}

/** Returns a function that sets the mask of a message again, if it has become empty since. */
export type MaskKeeper = (message: Message) => () => void;

/**
 * Compiles the function that keeps the mask set from the body if the client sends an empty mask, as generated clients do for a mask
 * without paths (AIP-134). Undefined as for `createMaskSetter`.
 */
export function createMaskKeeper(route: Route, variant: Variant): MaskKeeper | undefined {
  const found = findMask(route, variant);
  if (found === undefined) {
    return undefined;
  }
  const { localName } = found.mask;
  return (message) => {
    const values = valuesOf(message);
    const before = values[localName];
    return () => {
      const { paths } = (values[localName] ?? {}) as Partial<FieldMask>;
      if (before !== undefined && paths?.length === 0) {
        values[localName] = before;
      }
    };
  };
}

function findMask(
  { method, httpMethod }: Route,
  { body }: Variant,
): { readonly mask: DescField; readonly root: DescMessage } | undefined {
  const { fields } = method.input;
  const bodyField = fields.find(({ name }) => name === body);
  const [mask, ...others] = fields.filter(({ message }) => message?.typeName === FieldMaskSchema.typeName);
  return httpMethod !== "PATCH" ||
    bodyField?.fieldKind !== "message" ||
    hasCustomJsonRepresentation(bodyField.message) ||
    mask?.fieldKind !== "message" ||
    mask.oneof !== undefined ||
    others.length > 0
    ? undefined
    : { mask, root: bodyField.message };
}

function valuesOf(message: Message): Record<string, unknown> {
  return message;
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
    const own = byKey.get(key);
    const field = own === undefined || (fieldRule(own).lenient && !fits({ field: own }, value)) ? inline : own;
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
      const fields = desc.fields.filter((field) => !fieldRule(field).inline && fieldRule(field).header === "");
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
