import type { DescEnum } from "@bufbuild/protobuf";

/** The name of an enum's value as in the HTTP API, such as `running`; empty for what this page does not know. */
export function nameOfValue(schema: DescEnum, value: number): string {
  return value === 0 ? "" : (schema.value[value]?.localName.toLowerCase() ?? "");
}
