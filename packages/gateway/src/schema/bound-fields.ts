import type { DescField } from "@bufbuild/protobuf";
import type { FieldPath } from "./field-path.ts";

/** The part of a request, other than the query, that a field is bound to. */
export type BindingSource = "path" | "body" | "header";

/**
 * The fields of a message that are bound already. A single source means that all fields are bound to it; a nested map
 * means that only some fields of that submessage are bound.
 */
export type BoundFields = BindingSource | ReadonlyMap<DescField, BoundFields>;

export function createBoundFields(sources: Iterable<readonly [path: FieldPath, source: BindingSource]>): BoundFields {
  const root = new Map<DescField, BoundFields>();
  for (const [path, source] of sources) {
    let level = root;
    path.forEach((field, index) => {
      const bound = level.get(field);
      if (typeof bound === "string") {
        return;
      }
      if (index === path.length - 1) {
        // Binding the whole field replaces bindings of its subfields.
        level.set(field, source);
        return;
      }
      const next = (bound as Map<DescField, BoundFields> | undefined) ?? new Map<DescField, BoundFields>();
      level.set(field, next);
      level = next;
    });
  }
  return root;
}

export function bindFields(boundFields: BoundFields, fields: readonly DescField[], source: BindingSource): BoundFields {
  return typeof boundFields === "string"
    ? boundFields
    : new Map([...boundFields, ...fields.map((field) => [field, source] as const)]);
}

/**
 * The binding of a field: its own, the whole message's, or that of another member of its oneof, since only one member
 * can be set. A map is returned if only some of its subfields are bound.
 */
export function findBinding(boundFields: BoundFields | undefined, field: DescField): BoundFields | undefined {
  if (boundFields === undefined || typeof boundFields === "string") {
    return boundFields;
  }
  const own = boundFields.get(field);
  if (own === undefined && field.oneof !== undefined) {
    for (const member of field.oneof.fields) {
      const conflicting = boundFields.get(member);
      if (conflicting !== undefined) {
        return sourceOf(conflicting);
      }
    }
  }
  return own;
}

/** The source of a field; of its first bound subfield if only some are bound. */
function sourceOf(boundFields: BoundFields): BindingSource {
  if (typeof boundFields === "string") {
    return boundFields;
  }
  const [first] = boundFields.values();
  return first === undefined ? "path" : sourceOf(first);
}
