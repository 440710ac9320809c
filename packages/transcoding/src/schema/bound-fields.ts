import type { DescField } from "@bufbuild/protobuf";
import type { FieldPath } from "./field-path.ts";

/** Where a field gets its value from, if not from a parameter. */
export type BindingSource = "path" | "body" | "header";

/** The fields of a message that have a source already; of some only fields below them have. One source for all: every field. */
export type BoundFields = BindingSource | ReadonlyMap<DescField, BoundFields>;

export function createBoundFields(sources: Iterable<readonly [path: FieldPath, source: BindingSource]>): BoundFields {
  const root = new Map<DescField, BoundFields>();
  for (const [path, source] of sources) {
    let level = root;
    path.forEach((field, index) => {
      const below = level.get(field);
      if (typeof below === "string") {
        return;
      }
      if (index === path.length - 1) {
        // A whole field covers what was taken of it.
        level.set(field, source);
        return;
      }
      const next = (below as Map<DescField, BoundFields> | undefined) ?? new Map<DescField, BoundFields>();
      level.set(field, next);
      level = next;
    });
  }
  return root;
}

/**
 * Whether a field has a source: itself, by all of its message, or by another member of its oneof, of which
 * there can be only one. A map: only fields below it have.
 */
export function findBinding(boundFields: BoundFields | undefined, field: DescField): BoundFields | undefined {
  if (boundFields === undefined || typeof boundFields === "string") {
    return boundFields;
  }
  const own = boundFields.get(field);
  if (own === undefined && field.oneof !== undefined) {
    for (const member of field.oneof.fields) {
      const rival = boundFields.get(member);
      if (rival !== undefined) {
        return sourceOf(rival);
      }
    }
  }
  return own;
}

/** The one source of a field of which a part is taken: what is bound below decides. */
function sourceOf(boundFields: BoundFields): BindingSource {
  if (typeof boundFields === "string") {
    return boundFields;
  }
  const [below] = boundFields.values();
  return below === undefined ? "path" : sourceOf(below);
}
