import { create, ScalarType, type DescField, type DescMessage } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { enumNames, enumNumber, fieldRule, type EnumNames } from "../schema/rules.ts";
import { expectedOf, scalarFromText, toLocal } from "./scalar.ts";
import { textForms } from "./well-known.ts";

export type TextReader = {
  /** Returns the value as the field has it in memory; undefined if the text is invalid. Names of enum values can be read in any case. */
  readonly read: (text: string, ignoreEnumCase?: boolean) => unknown;
  /** The expected form of the text, for error messages. */
  readonly expected: string;
  /** The text is JSON, which is allowed in a query, but not in a path or a header. */
  readonly isJson: boolean;
  /** The reason in the error for an invalid text, by the field's options. */
  readonly reason: string | undefined;
};

export type TextReading = Pick<TextReader, "read" | "expected"> & { readonly isJson?: boolean };

export function withOptions(field: DescField, reading: TextReading): TextReader {
  const { invalid } = fieldRule(field);
  return { isJson: false, reason: invalid === "" ? undefined : invalid, ...reading };
}

/**
 * Returns the reading of a field's value, or of an item of a repeated field or map. Undefined for messages without a
 * text form, and for JSON.
 */
export function plainTextReading(field: DescField): TextReading | undefined {
  if (field.message !== undefined) {
    return messageFormOf(field, field.message);
  }
  if (field.enum !== undefined) {
    return enumFormOf(enumNames(field.enum), field.enum.open);
  }
  const { scalar } = field;
  const local = toLocal(field);
  return { read: (text) => local(scalarFromText(scalar, text)), expected: expectedOf[scalar] };
}

function enumFormOf(names: EnumNames, open: boolean): TextReading {
  const { strict, numberOf, nameOf } = names;
  return {
    read(text, ignoreCase = false) {
      const number = enumNumber(names, text, ignoreCase);
      if (number !== undefined || strict || !/^-?\d/.test(text)) {
        return number;
      }
      const given = scalarFromText(ScalarType.INT32, text) as number | undefined;
      // An open enum accepts numbers without a name.
      return given !== undefined && (open || nameOf.has(given)) ? given : undefined;
    },
    expected: `one of ${[...numberOf.keys()].join(", ")}`,
  };
}

function messageFormOf(field: DescField, desc: DescMessage): TextReading | undefined {
  const form = textForms.get(desc.typeName);
  if (form !== undefined) {
    return { read: form.parse, expected: form.expected };
  }
  if (isWrapperDesc(desc)) {
    const [value] = desc.fields;
    const { scalar } = value;
    const local = toLocal(value);
    // protobuf-es represents a singular wrapper by its value, and in all other places as a message.
    const isBare = field.fieldKind === "message" && field.oneof === undefined;
    return {
      read(text) {
        const bare = local(scalarFromText(scalar, text));
        return bare === undefined || isBare ? bare : create(desc, { value: bare });
      },
      expected: expectedOf[scalar],
    };
  }
  return undefined;
}
