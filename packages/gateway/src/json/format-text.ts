import type { DescField } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";

/**
 * Formats a value of a field, or an item of a repeated field or a map, as the text of a parameter, a path variable or a
 * header: the inverse of `createTextReader`. `json` is what `fieldWriter` returned for it.
 */
export function formatText({ enum: enumType, message }: DescField, json: unknown): string {
  if (enumType !== undefined && json === null) {
    return "NULL_VALUE";
  }
  return typeof json === "string" && message?.typeName !== ValueSchema.typeName ? json : JSON.stringify(json);
}
