import type { DescField } from "@bufbuild/protobuf";
import { setField } from "../schema/http-body.ts";
import { compile, literal } from "./compile.ts";
import { ValueError, prependPath, type Read } from "./value-error.ts";
import { expectedOf, plainCondition, scalarFromJson } from "./scalar.ts";

/** How one key of an object is read. */
export type FieldReader = {
  readonly field: DescField;
  readonly read: Read;
  /** A value that does not fit is none of the field's. */
  readonly lenient: boolean;
  readonly notNull: boolean;
  /** Under one of its names the object must have it. */
  readonly required: boolean;
  /** null is a value, and does not stand for an absent field. */
  readonly takesNull: boolean;
  /** The other of its names, under which it must not stand too. */
  readonly otherName: string | undefined;
  readonly reason: string | undefined;
};

/** What becomes of members that are none of the fields': they are refused, skipped, or kept for an inline field. */
export type UnknownMembers = "refuse" | "skip" | "keep";

/** Sets the fields of a message from an object's members. Gives those that are kept; undefined where there are none. */
export type MembersReader = (
  message: Record<string, unknown>,
  value: Record<string, unknown>,
) => Record<string, unknown> | undefined;

/** Compiles a function with a case for each key, such as `case "wires": if (item !== null) message["wires"] = read0(item);`. */
export function compileMembers(
  fields: ReadonlyMap<string, FieldReader>,
  unknownMembers: UnknownMembers,
): MembersReader {
  const names = [...fields.values()].flatMap(({ field, otherName }) =>
    otherName === undefined ? [field.jsonName] : [],
  );
  const unknown = `unknown; ${names.length === 0 ? "there are no fields" : `the fields are ${names.join(", ")}`}`;
  const refuse = (): never => {
    throw new ValueError(unknown);
  };
  const leftOver = { refuse: "refuse();", skip: "", keep: "(open ??= {})[key] = item;" };
  const required = [...new Set([...fields.values()].filter((reader) => reader.required).map(({ field }) => field))];
  const missing = (at: number): never => {
    const field = required[at] as DescField;
    throw new ValueError("is missing", fields.get(field.jsonName)?.reason, [field.jsonName]);
  };
  const given: Record<string, unknown> = { fits, missing, refuse, setCarefully, prependPath };
  const cases = [...fields].map(([key, reader], at) => {
    given[`reader${at}`] = reader;
    given[`read${at}`] = reader.read;
    const carefully = `setCarefully(message, reader${at}, item, value);`;
    let statement = carefully;
    if (reader.lenient) {
      // Skipped is only what has no field.
      statement = `if (fits(reader${at}, item)) ${carefully} else { ${leftOver[unknownMembers] || leftOver.refuse} }`;
    } else if (reader.otherName === undefined && reader.field.oneof === undefined) {
      const set = `message[${literal(reader.field.localName)}] = ${readingOf(reader.field, `read${at}`)};`;
      statement = `if (item !== null) ${set} else ${carefully}`;
    }
    const note = reader.required ? `has${required.indexOf(reader.field)} = true;` : "";
    return `case ${literal(key)}: ${note} ${statement} break;`;
  });
  return compile(
    given,
    `return (message, value) => {
      let open, key;
      ${required.map((_field, index) => `let has${index} = false;`).join("\n")}
      try {
        for (key in value) {
          const item = value[key];
          switch (key) {
            ${cases.join("\n")}
            default: ${leftOver[unknownMembers]}
          }
        }
      } catch (error) {
        throw prependPath(key, error);
      }
      ${required.map((_field, index) => `if (!has${index}) missing(${index});`).join("\n")}
      return open;
    };`,
  ) as MembersReader;
}

/** The code of a value read. What JSON.parse gives is the value already, for most fields that there are. */
function readingOf({ fieldKind, scalar }: DescField, read: string): string {
  const isPlain = fieldKind === "scalar" ? plainCondition(scalar, "item") : undefined;
  return isPlain === undefined ? `${read}(item)` : `${isPlain} ? item : ${read}(item)`;
}

/** Where more is to be looked at than the value: null, both names, the other members of a oneof. */
function setCarefully(message: Record<string, unknown>, reader: FieldReader, item: unknown, value: object): void {
  const { field, reason, otherName } = reader;
  if (otherName !== undefined && Object.hasOwn(value, otherName)) {
    throw new ValueError("stands twice, by both of its names", reason);
  }
  if (item === null && !reader.takesNull) {
    assertNullable(reader);
    return;
  }
  const rival = field.oneof && (message[field.oneof.localName] as { case?: string }).case;
  if (rival !== undefined) {
    throw new ValueError(`${rival} is given already, and only one of them can be`, reason);
  }
  setField(message, field, reader.read(item));
}

/** Where null stands for an absent field. */
export function assertNullable({ field, notNull, reason }: FieldReader): void {
  if (notNull) {
    throw new ValueError(`must be ${expectedOfField(field)}, not null`, reason);
  }
}

function fits({ field }: FieldReader, value: unknown): boolean {
  return field.fieldKind === "scalar" && scalarFromJson(field.scalar, value) !== undefined;
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
