import { create, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";

/** What google.api.HttpBody holds: a body that is no JSON. */
export type RawBody = {
  readonly contentType: string;
  readonly data: Uint8Array;
};

export function isHttpBody(desc: DescMessage | undefined): desc is DescMessage {
  return desc?.typeName === "google.api.HttpBody";
}

export type RawBodyTarget = {
  /** A new message that holds a raw body; undefined: none was sent. */
  wrap(body: RawBody | undefined): Message;
  /** The raw body that a message holds; undefined: none. */
  unwrap(message: Message): RawBody | undefined;
};

/**
 * Where a message holds a raw body, if it does: `name` as in google.api.http's body and response_body, with
 * "*" and the empty name for the message itself.
 */
export function findRawBody(desc: DescMessage, name: string): RawBodyTarget | undefined {
  if (name === "*" || name === "") {
    return isHttpBody(desc)
      ? { wrap: (body) => create(desc, body ?? {}), unwrap: (message) => message as Message & RawBody }
      : undefined;
  }
  const field = desc.fields.find((each) => each.name === name);
  if (field?.fieldKind !== "message" || !isHttpBody(field.message)) {
    return undefined;
  }
  const { message: held } = field;
  return {
    wrap(body) {
      const message = create(desc) as Message & Record<string, unknown>;
      if (body !== undefined) {
        setField(message, field, create(held, body));
      }
      return message;
    },
    unwrap: (message) => getField(message, field) as RawBody | undefined,
  };
}

/** The value of a field, also one that is a member of a oneof; undefined where it is absent. */
export function getField(message: Message & Record<string, unknown>, { oneof, localName }: DescField): unknown {
  if (oneof === undefined) {
    return message[localName];
  }
  const member = message[oneof.localName] as { case: string | undefined; value?: unknown };
  return member.case === localName ? member.value : undefined;
}

/** Sets a singular field, also one that is a member of a oneof. */
export function setField(message: Record<string, unknown>, field: DescField, value: unknown): void {
  if (field.oneof === undefined) {
    message[field.localName] = value;
  } else {
    message[field.oneof.localName] = { case: field.localName, value };
  }
}

/** A media type (RFC 9110, section 8.3.1), with what may stand in a header. */
const mediaType = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+(?:[\t ]*;[\t -~]*)?$/;

/** The Content-Type of a raw body that is sent; what can't be one would break the head, and is not repeated. */
export function contentTypeOf(body: RawBody | undefined): string {
  return body !== undefined && mediaType.test(body.contentType) ? body.contentType : "application/octet-stream";
}
