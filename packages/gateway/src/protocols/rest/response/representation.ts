import type { DescMethod, Message } from "@bufbuild/protobuf";
import { rankOf } from "../../../http/media-type.ts";
import { parseWeights } from "../../../http/weights.ts";
import { getField } from "../../../schema/field-value.ts";
import { findRepresentations } from "../../../schema/representations.ts";

/** How the body in another media type than JSON is read from a response message. */
export type ChosenRepresentation = { readonly mediaType: string; readonly read: (message: Message) => string };

/**
 * Compiles the choice of a representation by the Accept header; the choice is undefined for JSON, which takes precedence if it is
 * preferred equally. Undefined if the method has no other representation.
 */
export function createRepresentationChoice(
  method: DescMethod,
): ((accept: string | undefined) => ChosenRepresentation | undefined) | undefined {
  const representations = findRepresentations(method).map(({ mediaType, field }) => ({
    mediaType,
    read: (message: Message) => {
      const text = (getField(message, field) as string | undefined) ?? "";
      if (!text.isWellFormed()) {
        throw new RangeError(`${field.toString()} can't hold a lone surrogate`);
      }
      return text;
    },
  }));
  if (representations.length === 0) {
    return undefined;
  }
  return (accept) => {
    if (accept === undefined || accept === "") {
      return undefined;
    }
    const ranges = parseWeights(accept);
    let chosen: ChosenRepresentation | undefined;
    let best = rankOf(ranges, "application/json");
    for (const representation of representations) {
      const rank = rankOf(ranges, representation.mediaType);
      if (rank > best) {
        [chosen, best] = [representation, rank];
      }
    }
    return chosen;
  };
}
