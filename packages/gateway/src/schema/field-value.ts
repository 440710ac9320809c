import type { DescField, DescMessage, Message } from "@bufbuild/protobuf";

/** Returns the value of a field, which may be a member of a oneof; undefined if it is not set. */
export function getField(message: Message & Record<string, unknown>, { oneof, localName }: DescField): unknown {
  if (oneof === undefined) {
    return message[localName];
  }
  const member = message[oneof.localName] as { case: string | undefined; value?: unknown };
  return member.case === localName ? member.value : undefined;
}

/** The name of another member of the field's oneof that is set. */
export function otherMemberOf(message: Record<string, unknown>, { oneof, localName }: DescField): string | undefined {
  const member = oneof && (message[oneof.localName] as { case: string | undefined }).case;
  return member === localName ? undefined : member;
}

/** Sets a singular field, which may be a member of a oneof. */
export function setField(message: Record<string, unknown>, field: DescField, value: unknown): void {
  if (field.oneof === undefined) {
    message[field.localName] = value;
  } else {
    message[field.oneof.localName] = { case: field.localName, value };
  }
}

/** Creates a message whose fields are read from another one, which is created on the first access to one of them. */
export function createLazyMessage(desc: DescMessage, read: () => Message): Message {
  const message: Message = { $typeName: desc.typeName };
  let decoded: Record<string, unknown> | undefined;
  const readOnce = (): Record<string, unknown> => (decoded ??= read() as Message & Record<string, unknown>);
  for (const { localName } of desc.members) {
    Object.defineProperty(message, localName, {
      enumerable: true,
      configurable: true,
      get: () => readOnce()[localName],
      set(value: unknown) {
        readOnce()[localName] = value;
      },
    });
  }
  return message;
}
