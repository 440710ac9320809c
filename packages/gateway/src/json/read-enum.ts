import type { DescEnum } from "@bufbuild/protobuf";
import { enumNumber, type EnumNames } from "../schema/rules.ts";
import { ValueError, type Read } from "./value-error.ts";

/** Creates the reader of an enum's value, by name, and by number unless the values have names of their own in JSON. */
export function createEnumReader(
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
