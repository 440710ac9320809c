import type { DescMethod } from "@bufbuild/protobuf";
import type { Variant } from "../routing/route.ts";
import { methodRule } from "../schema/rules.ts";
import type { Content, MediaType, Schema } from "./document.ts";
import type { SchemaForm } from "./scalar-schema.ts";

export const NDJSON_LINES = "A line of JSON for each message.";

/** The media type of a stream. OpenAPI 3.1 can't describe its items; `x-itemSchema` is the `itemSchema` of 3.2. */
export function streamMediaType(item: Schema, description: string): MediaType {
  return { schema: { type: "string", description }, "x-itemSchema": item };
}

/** Merges the contents of all variants. Schemas that differ are alternatives with the header's values as title. */
export function mergeContents(
  method: DescMethod,
  contents: readonly { readonly variant: Variant; readonly content: Content }[],
  form: SchemaForm,
): Content {
  const header = methodRule(method).variants?.header;
  const merged: Content = {};
  for (const type of new Set(contents.flatMap(({ content }) => Object.keys(content)))) {
    const members = contents.flatMap(({ variant: { value }, content }) => {
      const mediaType = content[type];
      return mediaType === undefined ? [] : [{ value, mediaType }];
    });
    const [first, ...others] = Map.groupBy(members, ({ mediaType }) => JSON.stringify(mediaType.schema)).values();
    merged[type] =
      others.length === 0
        ? { ...first?.[0]?.mediaType }
        : {
            schema: alternatives(
              [first ?? [], ...others].map((equal) => ({
                title: `${header}: ${equal.map(({ value }) => value).join(" or ")}`,
                ...equal[0]?.mediaType.schema,
              })),
              form,
            ),
          };
  }
  return merged;
}

/** The code that openapi-generator writes for an alternative of arrays does not compile: in simple schemas it is any value. */
function alternatives(schemas: readonly Schema[], form: SchemaForm): Schema {
  return form === "simple" && schemas.some(({ type }) => type === "array")
    ? { description: "Depends on the variant, see the description of the operation.", "x-anyOf": schemas }
    : { anyOf: schemas };
}
