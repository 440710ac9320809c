import type { DescMethod, Message } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";
import { parseETags, valueOf } from "../http/etag.ts";
import { RequestError } from "../http/request-error.ts";
import { methodRule } from "../schema/rules.ts";

/** Fills the field that an If-Match fills, after all other sources. Throws a RequestError where it can't be obeyed. */
export type IfMatchReader = (headers: IncomingHttpHeaders, message: Message) => void;

/**
 * Compiles the `if_match` option: one strong entity tag is the field's value; `*` asks for nothing that the
 * field could say. Undefined where the method does not have the option.
 */
export function createIfMatchReader(method: DescMethod): IfMatchReader | undefined {
  const name = methodRule(method).ifMatch;
  if (name === "") {
    return undefined;
  }
  const field = method.input.fields.find((each) => each.name === name);
  if (field?.fieldKind !== "scalar" || field.scalar !== ScalarType.STRING || field.oneof !== undefined) {
    throw new Error(`${method.input.typeName} has no string field "${name}" for If-Match`);
  }
  const { localName, jsonName } = field;
  return (headers, message: Message & Record<string, unknown>) => {
    const header = headers["if-match"];
    const tag = header === undefined ? undefined : readTag(header);
    if (tag === undefined) {
      return;
    }
    const given = message[localName];
    // Without presence, an empty text is an absent one.
    if (given !== undefined && given !== tag && !(given === "" && !field.proto.proto3Optional)) {
      throw new RequestError(400, undefined, `If-Match and ${jsonName} differ`);
    }
    message[localName] = tag;
  };
}

/** The value of the only tag that may match; undefined for `*`. */
function readTag(header: string): string | undefined {
  const tags = parseETags(header);
  if (tags === undefined) {
    throw new RequestError(400, "invalid_argument", 'If-Match: must be an entity tag in double quotes, or "*"');
  }
  if (tags === "*") {
    return undefined;
  }
  // RFC 9110, section 13.1.1: by strong comparison, and so a weak tag matches nothing. The forms of one
  // representation, compressed and not, stand for one state.
  const strong = new Set(tags.filter(({ weak }) => !weak).map(({ value }) => valueOf(value)));
  const [only] = strong;
  if (only === undefined) {
    throw new RequestError(412, "precondition_failed", "If-Match: a weak entity tag never matches");
  }
  if (strong.size > 1) {
    throw new RequestError(
      400,
      "invalid_argument",
      "If-Match: must be one entity tag; of several, none can be compared",
    );
  }
  return only;
}
