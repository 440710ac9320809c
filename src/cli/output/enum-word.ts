import type { DescEnum } from "@bufbuild/protobuf";
import type { GenEnum } from "@bufbuild/protobuf/codegenv2";

/** The value of an enum in lower case: `automatic undo`. Empty if it is unspecified. */
export function enumWord(schema: DescEnum, value: number): string {
  return value === 0 ? "" : (schema.value[value]?.localName.toLowerCase().replaceAll("_", " ") ?? String(value));
}

/** The inverse of `enumWord` for words that are known; 0, unspecified, otherwise. */
export function enumValue<T extends number>(schema: GenEnum<T>, word: string): T {
  return (schema.values.find(({ number }) => enumWord(schema, number) === word)?.number ?? 0) as T;
}
