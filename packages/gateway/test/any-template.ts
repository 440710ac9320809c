import * as fc from "fast-check";
import { type Segment, type Template, parseTemplate } from "../src/routing/template.ts";

/** Arbitrary templates with (escaped) literals, wildcards, at most one "**", variables and a verb. */
export function anyTemplate(): fc.Arbitrary<Template> {
  const segment = fc.oneof(literal(), fc.constant<Segment>({ kind: "*" }));
  return fc
    .record({
      before: fc.array(segment, { minLength: 1, maxLength: 5 }),
      after: fc.option(fc.array(literal(), { maxLength: 3 })),
      cuts: fc.array(fc.boolean(), { minLength: 9, maxLength: 9 }),
      variables: fc.array(fc.option(fc.stringMatching(/^[a-z_]{1,3}(\.[a-z]{1,3})?$/)), { minLength: 9, maxLength: 9 }),
      verb: fc.oneof(fc.constant(""), fc.stringMatching(/^[a-z0-9~]{1,5}$/)),
    })
    .map(({ before, after, cuts, variables, verb }) => {
      const segments = [...before, ...(after === null ? [] : [{ kind: "**" } as const, ...after])];
      const spans: Template["variables"][number][] = [];
      let start = 0;
      for (let end = 1; end <= segments.length; end++) {
        if (end === segments.length || cuts[end] === true) {
          const fieldPath = variables[start] ?? null;
          if (fieldPath !== null && !spans.some((other) => other.fieldPath === fieldPath)) {
            spans.push({ fieldPath, start, end, multi: end - start > 1 || segments[start]?.kind === "**" });
          }
          start = end;
        }
      }
      return { segments, variables: spans, verb };
    });
}

function literal(): fc.Arbitrary<Segment> {
  return fc
    .oneof(
      fc.constantFrom("a", "b", "v1", "%2F", "%E4%B8%96", "a%20b", "世", "%3A"),
      fc.stringMatching(/^[\w.~-]{1,4}$/),
    )
    .map((text) => parseTemplate(`/${text}`).segments[0] ?? { kind: "*" });
}
