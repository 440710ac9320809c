import { create, type DescField, type DescMessage, type Message } from "@bufbuild/protobuf";
import { Fault } from "./fault.ts";
import { expectedOf, scalarFromText } from "./json/scalar.ts";
import { enumSpelling, fieldRule } from "./rules.ts";

/** Reads an application/x-www-form-urlencoded document into a message. */
export type FormReader = (bytes: Uint8Array) => Message;

type FormOptions = {
  /** Parameters that the message does not have are skipped, not refused. */
  readonly ignoreUnknown: boolean;
};

/**
 * The parameters of a form are top-level fields, by either of their names. Throws at start-up for a
 * message with other fields than scalars and enums, which a form is not supported for.
 */
export function createFormReader(desc: DescMessage, options: FormOptions): FormReader {
  const fields = new Map<string, DescField>();
  for (const field of desc.fields) {
    if (fieldRule(field).header !== "") {
      continue;
    }
    if ((field.fieldKind !== "scalar" && field.fieldKind !== "enum") || field.oneof !== undefined) {
      throw new Error(`${desc.typeName}.${field.name}: a form can hold scalars and enums only`);
    }
    fields.set(field.name, field).set(field.jsonName, field);
  }
  return (bytes) => {
    const message = create(desc) as Message & Record<string, unknown>;
    const seen = new Set<DescField>();
    for (const [name, text] of parseForm(bytes)) {
      const field = fields.get(name);
      if (field === undefined) {
        // "username[]" and "username.x" mean a part of a field that has no parts.
        const base = /^[^.[]*/.exec(name)?.[0] ?? "";
        if (base !== name && fields.has(base)) {
          throw new Fault(400, undefined, `${base}: must be one plain value`);
        }
        if (!options.ignoreUnknown) {
          throw new Fault(400, undefined, `an unknown parameter; the parameters are ${[...fields.keys()].join(", ")}`);
        }
        continue;
      }
      if (seen.has(field)) {
        throw new Fault(400, undefined, `${field.name}: given more than once`);
      }
      seen.add(field);
      message[field.localName] = readText(field, text);
    }
    return message;
  };
}

/** One text as a field's value: of a form, or of a header. Throws a Fault where it does not fit. */
export function readText(field: DescField, text: string): unknown {
  const rule = fieldRule(field);
  const reason = rule.invalid === "" ? undefined : rule.invalid;
  const name = rule.header === "" ? field.name : rule.header;
  if (field.fieldKind === "enum") {
    const { numberOf } = enumSpelling(field.enum);
    const number = numberOf.get(text);
    if (number === undefined) {
      throw new Fault(400, reason, `${name}: must be one of ${[...numberOf.keys()].join(", ")}`);
    }
    return number;
  }
  if (field.fieldKind !== "scalar") {
    throw new Error(`${field.toString()}: a text can only be a scalar or an enum`);
  }
  const value = scalarFromText(field.scalar, text);
  if (value === undefined) {
    throw new Fault(400, reason, `${name}: must be ${expectedOf[field.scalar]}`);
  }
  return value;
}

/** The pairs of a form (WHATWG URL, section 5.1), but strict: a bad escape or bad UTF-8 is a fault. */
function parseForm(bytes: Uint8Array): [string, string][] {
  const pairs: [string, string][] = [];
  for (const part of Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1").split("&")) {
    if (part !== "") {
      const equals = part.indexOf("=");
      const name = equals === -1 ? part : part.slice(0, equals);
      pairs.push([decodePart(name), equals === -1 ? "" : decodePart(part.slice(equals + 1))]);
    }
  }
  return pairs;
}

function decodePart(part: string): string {
  try {
    // Bytes beyond ASCII may stand there unescaped: escape them, so that one decoder reads all UTF-8.
    const escaped = part
      .replaceAll("+", " ")
      .replaceAll(/[\u0080-\u00ff]/g, (char) => `%${char.charCodeAt(0).toString(16)}`);
    return decodeURIComponent(escaped);
  } catch {
    throw new Fault(400, undefined, "the form is badly encoded: percent-escapes of UTF-8 were expected");
  }
}
