import { ScalarType, type DescEnum, type DescField, type DescMessage } from "@bufbuild/protobuf";
import { isWrapperDesc } from "@bufbuild/protobuf/wkt";
import { type EnumNames, enumNumber } from "../schema/rules.ts";
import { ValueError, prependPath, type Read } from "./value-error.ts";
import { isObject, setOwn } from "./object.ts";
import { expectedOf, plainEntriesCount, plainItemsCheck, scalarFromJson, scalarFromText, toLocal } from "./scalar.ts";

export type FieldContext = {
  readonly message: (desc: DescMessage) => Read;
  readonly spellingOf: (desc: DescEnum) => EnumNames;
  readonly ignoreEnumCase: boolean;
  /** The reason in the error for an invalid value; undefined if the field's options name none. */
  readonly reasonOf: (field: DescField) => string | undefined;
};

/** Creates the reader of a field's value: an array for a repeated field, an object for a map. */
export function createFieldReader(desc: DescField, context: FieldContext): Read {
  const reason = context.reasonOf(desc);
  switch (desc.fieldKind) {
    case "scalar":
    case "enum":
      return createItemReader(desc, context);
    case "message": {
      const read = context.message(desc.message);
      if (desc.oneof !== undefined || !isWrapperDesc(desc.message)) {
        return read;
      }
      // protobuf-es represents a singular wrapper by its value.
      return (value) => (read(value) as { value: unknown }).value;
    }
    case "list": {
      const item = createItemReader(desc, context);
      const isPlain = plainItemsCheck(desc.scalar);
      return (value) => {
        if (!Array.isArray(value)) {
          throw new ValueError("must be an array", reason);
        }
        const items = value as unknown[];
        if (isPlain(items)) {
          return items;
        }
        const result: unknown[] = [];
        let i = 0;
        try {
          for (; i < items.length; i++) {
            result.push(item(items[i]));
          }
        } catch (error) {
          throw prependPath(i, error);
        }
        return result;
      };
    }
    case "map": {
      const item = createItemReader(desc, context);
      const { mapKey } = desc;
      const countPlain = mapKey === ScalarType.STRING ? plainEntriesCount(desc.scalar) : () => -1;
      return (value) => {
        if (!isObject(value)) {
          throw new ValueError("must be an object", reason);
        }
        if (countPlain(value) !== -1) {
          return value;
        }
        const result: Record<string, unknown> = {};
        for (const name in value) {
          const key = mapKey === ScalarType.STRING ? name : readKey(mapKey, name, result, reason);
          try {
            setOwn(result, key, item(value[name]));
          } catch (error) {
            throw prependPath(name, error);
          }
        }
        return result;
      };
    }
  }
}

function createItemReader(desc: DescField, { message, spellingOf, ignoreEnumCase, reasonOf }: FieldContext): Read {
  const reason = reasonOf(desc);
  if (desc.message !== undefined) {
    return message(desc.message);
  }
  if (desc.enum !== undefined) {
    return createEnumReader(desc.enum, spellingOf(desc.enum), ignoreEnumCase, reason);
  }
  const { scalar } = desc;
  if (scalar === ScalarType.STRING) {
    return (value) => {
      if (typeof value !== "string") {
        throw new ValueError("must be a string", reason);
      }
      return value;
    };
  }
  const local = toLocal(desc);
  return (value) => {
    const result = local(scalarFromJson(scalar, value));
    if (result === undefined) {
      throw new ValueError(`must be ${expectedOf[scalar]}`, reason);
    }
    return result;
  };
}

function readKey(
  mapKey: Exclude<ScalarType, ScalarType.FLOAT | ScalarType.DOUBLE | ScalarType.BYTES>,
  name: string,
  before: object,
  reason: string | undefined,
): string {
  const key = scalarFromText(mapKey, name);
  if (key === undefined) {
    throw new ValueError(`the key must be ${expectedOf[mapKey]}`, reason, [name]);
  }
  if (Object.hasOwn(before, String(key))) {
    throw new ValueError("duplicate key", reason, [name]);
  }
  return String(key);
}

/** Creates the reader of an enum's value, by name, and by number unless the values have names of their own in JSON. */
function createEnumReader(
  { open, typeName }: DescEnum,
  names: EnumNames,
  ignoreCase: boolean,
  reason: string | undefined,
): Read {
  const { strict, numberOf, nameOf, unknown } = names;
  if (typeName === "google.protobuf.NullValue") {
    return (value) => {
      if (value !== null && value !== "NULL_VALUE" && value !== 0) {
        throw new ValueError("must be null", reason);
      }
      return 0;
    };
  }
  const expected = `one of ${[...numberOf.keys()].join(", ")}`;
  return (value) => {
    const number = typeof value === "string" ? (enumNumber(names, value, ignoreCase) ?? unknown) : value;
    // An open enum accepts numbers without a name.
    if (
      typeof number === "number" &&
      (!strict || typeof value === "string") &&
      number === (number | 0) &&
      (open || nameOf.has(number))
    ) {
      // -0 becomes 0.
      return number | 0;
    }
    throw new ValueError(`must be ${expected}`, reason);
  };
}
