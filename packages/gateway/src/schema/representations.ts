import type { DescField, DescMethod } from "@bufbuild/protobuf";
import { ScalarType } from "@bufbuild/protobuf";
import { isSingularOutsideOneof } from "./header-fields.ts";
import { fieldRule, methodRule } from "./rules.ts";

/** A field of a response that contains it in another media type than JSON. */
export type Representation = { readonly mediaType: string; readonly field: DescField };

/** Finds the fields of a method's response with the `media_type` option. Throws for a field that can't have it. */
export function findRepresentations(method: DescMethod): readonly Representation[] {
  const representations = method.output.fields
    .map((field) => ({ mediaType: fieldRule(field).mediaType.toLowerCase(), field }))
    .filter(({ mediaType }) => mediaType !== "");
  for (const { field } of representations) {
    if (field.scalar !== ScalarType.STRING || !isSingularOutsideOneof(field)) {
      throw new Error(
        `${field.toString()}: a field with the option media_type must be a singular string outside of oneofs`,
      );
    }
    // Representations with the same strong entity tag would be the same bytes (RFC 9110, section 8.8.3).
    if (methodRule(method).etag !== "") {
      throw new Error(`${field.toString()}: the response of a method with an etag can't have a media_type`);
    }
  }
  return representations;
}
