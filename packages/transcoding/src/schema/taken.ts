import type { DescField } from "@bufbuild/protobuf";
import type { FieldPath } from "./field-path.ts";

/** Where a field gets its value from, if not from a parameter. */
export type Source = "path" | "body" | "header";

/** The fields of a message that have a source already; of some only fields below them have. One source for all: every field. */
export type TakenFields = Source | ReadonlyMap<DescField, TakenFields>;

export function createTakenFields(sources: Iterable<readonly [path: FieldPath, source: Source]>): TakenFields {
  const root = new Map<DescField, TakenFields>();
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
      const next = (below as Map<DescField, TakenFields> | undefined) ?? new Map<DescField, TakenFields>();
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
export function takenOf(taken: TakenFields | undefined, field: DescField): TakenFields | undefined {
  if (taken === undefined || typeof taken === "string") {
    return taken;
  }
  const own = taken.get(field);
  if (own === undefined && field.oneof !== undefined) {
    for (const member of field.oneof.fields) {
      const rival = taken.get(member);
      if (rival !== undefined) {
        return sourceOf(rival);
      }
    }
  }
  return own;
}

/** The one source of a field of which a part is taken: what is bound below decides. */
function sourceOf(taken: TakenFields): Source {
  if (typeof taken === "string") {
    return taken;
  }
  const [below] = taken.values();
  return below === undefined ? "path" : sourceOf(below);
}
