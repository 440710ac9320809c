import type { DescField } from "@bufbuild/protobuf";
import { StructSchema } from "@bufbuild/protobuf/wkt";
import { setField } from "../schema/field-value.ts";
import { compile, literal } from "./compile.ts";
import { isObject, setOwn } from "./object.ts";
import { ValueError, prependPath, type Read } from "./value-error.ts";
import { expectedOf, plainCondition, scalarFromJson } from "./scalar.ts";

export type FieldReader = {
  readonly field: DescField;
  readonly read: Read;
  /** A value of another type counts as an unknown member. */
  readonly lenient: boolean;
  readonly notNull: boolean;
  /** The object must have a member under one of the field's names. */
  readonly required: boolean;
  /** null is a value. For other fields it stands for an absent field. */
  readonly takesNull: boolean;
  /** The field's other name, under which the object must not have a second member. */
  readonly otherName: string | undefined;
  readonly reason: string | undefined;
};

/** The treatment of members that belong to no field. "keep" is for messages with an inline field. */
export type UnknownMembers = "reject" | "skip" | "keep";

/** Sets the fields of a message from an object's members. Returns the members to keep; undefined if there are none. */
export type MembersReader = (
  message: Record<string, unknown>,
  value: Record<string, unknown>,
) => Record<string, unknown> | undefined;

/** Compiles a function with a case for each key, such as `case "wires": if (item !== null) message["wires"] = read0(item);`. */
export function compileMembersReader(
  readers: ReadonlyMap<string, FieldReader>,
  unknownMembers: UnknownMembers,
): MembersReader {
  const names = [...readers.values()].flatMap(({ field, otherName }) =>
    otherName === undefined ? [field.jsonName] : [],
  );
  const unknown = `unknown; ${names.length === 0 ? "there are no fields" : `the fields are ${names.join(", ")}`}`;
  const reject = (): never => {
    throw new ValueError(unknown);
  };
  const required = [...new Set([...readers.values()].filter((reader) => reader.required).map(({ field }) => field))];
  const missing = (field: DescField): never => {
    throw new ValueError("is missing", readers.get(field.jsonName)?.reason, [field.jsonName]);
  };

  const scope: Record<string, unknown> = { fits, missing, reject, required, setMember, setOwn, prependPath };
  const codeForUnknown = { reject: "reject();", skip: "", keep: "setOwn((rest ??= {}), key, item);" };
  const cases = [...readers].map(([key, reader], at) => {
    scope[`reader${at}`] = reader;
    scope[`read${at}`] = reader.read;
    const set = `setMember(message, reader${at}, item, value);`;
    let statement = set;
    if (reader.lenient) {
      // Only members without any field are skipped.
      statement = `if (fits(reader${at}, item)) ${set} else { ${codeForUnknown[unknownMembers] || codeForUnknown.reject} }`;
    } else if (reader.otherName === undefined && reader.field.oneof === undefined) {
      const code = readingCode(reader.field, `read${at}`);
      statement = `if (item !== null) message[${literal(reader.field.localName)}] = ${code}; else ${set}`;
    }
    const note = reader.required ? `has${required.indexOf(reader.field)} = true;` : "";
    return `case ${literal(key)}: ${note} ${statement} break;`;
  });
  return compile(
    scope,
    `return (message, value) => {
      let rest, key;
      ${required.map((_field, index) => `let has${index} = false;`).join("\n")}
      try {
        for (key in value) {
          const item = value[key];
          switch (key) {
            ${cases.join("\n")}
            default: ${codeForUnknown[unknownMembers]}
          }
        }
      } catch (error) {
        throw prependPath(key, error);
      }
      ${required.map((_field, index) => `if (!has${index}) missing(required[${index}]);`).join("\n")}
      return rest;
    };`,
    (message, value) => {
      let rest: Record<string, unknown> | undefined;
      const found = new Set<DescField>();
      for (const key in value) {
        const item = value[key];
        const reader = readers.get(key);
        try {
          if (reader !== undefined && (!reader.lenient || fits(reader, item))) {
            setMember(message, reader, item, value);
          } else if (unknownMembers === "keep") {
            setOwn((rest ??= {}), key, item);
          } else if (unknownMembers === "reject" || reader !== undefined) {
            reject();
          }
        } catch (error) {
          throw prependPath(key, error);
        }
        if (reader !== undefined) {
          found.add(reader.field);
        }
      }
      const absent = required.find((field) => !found.has(field));
      return absent === undefined ? rest : missing(absent);
    },
  );
}

/** The code that reads `item`. For most fields, what JSON.parse returns is the field's value already. */
function readingCode({ fieldKind, scalar }: DescField, read: string): string {
  const isPlain = fieldKind === "scalar" ? plainCondition(scalar, "item") : undefined;
  return isPlain === undefined ? `${read}(item)` : `${isPlain} ? item : ${read}(item)`;
}

/** Sets any field, with the checks for null, for both names and for other members of a oneof. */
function setMember(message: Record<string, unknown>, reader: FieldReader, item: unknown, value: object): void {
  const { field, reason, otherName } = reader;
  if (otherName !== undefined && Object.hasOwn(value, otherName)) {
    throw new ValueError(`set twice, as ${field.jsonName} and ${field.name}`, reason);
  }
  if (item === null && !reader.takesNull) {
    assertNullable(reader);
    return;
  }
  const other = field.oneof && (message[field.oneof.localName] as { case?: string }).case;
  if (other !== undefined) {
    throw new ValueError(`${other} of the same oneof is already set`, reason);
  }
  setField(message, field, reader.read(item));
}

/** For null where it stands for an absent field. */
export function assertNullable({ field, notNull, reason }: FieldReader): void {
  if (notNull) {
    throw new ValueError(`must be ${expectedOfField(field)}, not null`, reason);
  }
}

/** True if the value is of the type of a lenient field. */
export function fits({ field }: Pick<FieldReader, "field">, value: unknown): boolean {
  return field.fieldKind === "message"
    ? field.message.typeName === StructSchema.typeName && isObject(value)
    : field.fieldKind === "scalar" && scalarFromJson(field.scalar, value) !== undefined;
}

function expectedOfField(field: DescField): string {
  switch (field.fieldKind) {
    case "scalar":
      return expectedOf[field.scalar];
    case "enum":
      return "a name";
    case "list":
      return "an array";
    default:
      return "an object";
  }
}
