import type { DescField, Message } from "@bufbuild/protobuf";

/** Returns the value of a field, which may be a member of a oneof; undefined if it is not set. */
export function getField(message: Message & Record<string, unknown>, { oneof, localName }: DescField): unknown {
  if (oneof === undefined) {
    return message[localName];
  }
  const member = message[oneof.localName] as { case: string | undefined; value?: unknown };
  return member.case === localName ? member.value : undefined;
}

/** Sets a singular field, which may be a member of a oneof. */
export function setField(message: Record<string, unknown>, field: DescField, value: unknown): void {
  if (field.oneof === undefined) {
    message[field.localName] = value;
  } else {
    message[field.oneof.localName] = { case: field.localName, value };
  }
}
