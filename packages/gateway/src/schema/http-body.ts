import { create, ScalarType, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { getField, setField } from "./field-value.ts";

/** The fields of google.api.HttpBody: a body of any media type. */
export type RawBody = { readonly contentType: string; readonly data: Uint8Array };

export function isHttpBody(desc: DescMessage | undefined): desc is DescMessage {
  return desc?.typeName === "google.api.HttpBody";
}

/** True if a field is sent as a file in multipart/form-data: bytes or HttpBody, singular or repeated. */
export function isFileField(field: DescField): boolean {
  return field.fieldKind !== "map" && (field.scalar === ScalarType.BYTES || isHttpBody(field.message));
}

/** Converts between a message and the raw body that it contains. */
export type RawBodyTarget = {
  /** Creates a message that contains the body; `undefined` if none was sent. */
  wrap(body: RawBody | undefined): Message;
  /** Returns the body that a message contains, or undefined if it has none. */
  unwrap(message: Message): RawBody | undefined;
};

/**
 * Finds the google.api.HttpBody of a message; undefined if it has none. `name` is the `body` or `response_body` of
 * google.api.http: "*" or empty for the message itself, or the name of a field.
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
  const { message: bodyDesc } = field;
  return {
    wrap(body) {
      const message = create(desc) as Message & Record<string, unknown>;
      if (body !== undefined) {
        setField(message, field, create(bodyDesc, body));
      }
      return message;
    },
    unwrap: (message) => getField(message, field) as RawBody | undefined,
  };
}

/** A media type with parameters (RFC 9110, section 8.3.1) that is valid as a header value. */
const mediaType = /^[\w!#$%&'*+.^`|~-]+\/[\w!#$%&'*+.^`|~-]+(?:[\t ]*;[\t -~]*)?$/;

/** The Content-Type of a raw body; `application/octet-stream` if its own is missing or invalid. */
export function contentTypeOf(body: RawBody | undefined): string {
  return body !== undefined && mediaType.test(body.contentType) ? body.contentType : "application/octet-stream";
}
