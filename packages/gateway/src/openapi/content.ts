import type { DescMethod } from "@bufbuild/protobuf";
import type { Variant } from "../routing/route.ts";
import { methodRule } from "../schema/rules.ts";
import type { Content, MediaType, Schema } from "./document.ts";

export const NDJSON_LINES = "A line of JSON for each message.";

/** The media type of a stream. OpenAPI 3.1 can't describe its items; `x-itemSchema` is the `itemSchema` of 3.2. */
export function streamMediaType(item: Schema, description: string): MediaType {
  return { schema: { type: "string", description }, "x-itemSchema": item };
}

/** Merges the contents of all variants. If they differ, the schemas are alternatives with the header's value as title. */
export function mergeContents(
  method: DescMethod,
  contents: readonly { readonly variant: Variant; readonly content: Content }[],
): Content {
  const header = methodRule(method).variants?.header;
  const merged: Content = {};
  for (const type of new Set(contents.flatMap(({ content }) => Object.keys(content)))) {
    const alternatives = contents.flatMap(({ variant, content }) => {
      const schema = content[type]?.schema;
      return schema === undefined ? [] : [{ variant, schema }];
    });
    const [first] = alternatives;
    const differ = new Set(contents.map(({ variant: { body, responseBody } }) => `${body} ${responseBody}`)).size > 1;
    merged[type] =
      first !== undefined && differ
        ? {
            schema: {
              anyOf: alternatives.map(({ variant, schema }) => ({ title: `${header}: ${variant.value}`, ...schema })),
            },
          }
        : { ...contents.find(({ content }) => content[type] !== undefined)?.content[type] };
  }
  return merged;
}
