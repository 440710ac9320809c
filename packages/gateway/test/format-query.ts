import { ScalarType, toJson, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";

type Fields = Record<string, unknown>;

/**
 * Formats a message as a query, the inverse of the parameter reader. Zeros are included, so that a message of default values
 * is set. Fields that parameters can't set (repeated messages, Any) are omitted.
 */
export function formatQuery(
  desc: DescMessage,
  message: Message,
  nameOf: (field: DescField) => string = ({ name }) => name,
  enumAsInteger = false,
): string {
  return parameters(desc, message, { nameOf, enumAsInteger })
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join("&");
}

type Form = { nameOf: (field: DescField) => string; enumAsInteger: boolean };

function parameters(desc: DescMessage, message: Message, form: Form): [name: string, value: string][] {
  return desc.fields.flatMap((field): [string, string][] => {
    const value = fieldValue(field, message);
    const name = form.nameOf(field);
    if (value === undefined) {
      return [];
    }
    if (field.fieldKind === "list") {
      return (value as unknown[]).flatMap((item) => valueParameters(field, name, item, form));
    }
    return field.fieldKind === "map"
      ? Object.entries(value as object).flatMap(([key, item]) => valueParameters(field, `${name}[${key}]`, item, form))
      : valueParameters(field, name, value, form);
  });
}

function valueParameters(field: DescField, name: string, value: unknown, form: Form): [string, string][] {
  const text = formatText(field, value, form.enumAsInteger);
  if (text !== undefined) {
    return [[name, text]];
  }
  if (field.message === undefined || field.fieldKind !== "message") {
    return [];
  }
  return parameters(field.message, value as Message, form).map(([rest, each]) => [`${name}.${rest}`, each]);
}

function fieldValue(field: DescField, message: Fields): unknown {
  if (field.oneof === undefined) {
    return message[field.localName];
  }
  const member = message[field.oneof.localName] as { case: string | undefined; value?: unknown };
  return member.case === field.localName ? member.value : undefined;
}

/** Formats the value of a parameter or path variable; undefined for a message with fields. */
export function formatText(field: DescField, value: unknown, enumAsInteger = false): string | undefined {
  const { message } = field;
  if (field.enum !== undefined) {
    return (enumAsInteger ? undefined : field.enum.value[value as number]?.name) ?? String(value);
  }
  if (message === undefined) {
    return formatScalar(field.scalar, value);
  }
  if (isWrapperDesc(message)) {
    const isBare = field.fieldKind === "message" && field.oneof === undefined;
    return formatScalar(message.fields[0].scalar, isBare ? value : (value as { value: unknown }).value);
  }
  if (message.typeName === "google.protobuf.Struct") {
    return JSON.stringify(value);
  }
  if (!message.typeName.startsWith("google.protobuf.")) {
    return undefined;
  }
  const json = toJson(message, value as Message);
  return message.typeName === "google.protobuf.Value" || typeof json !== "string" ? JSON.stringify(json) : json;
}

function formatScalar(type: ScalarType, value: unknown): string {
  return type === ScalarType.BYTES
    ? Buffer.from(value as Uint8Array).toString("base64url")
    : Object.is(value, -0)
      ? "-0"
      : String(value);
}
