import { FlowgateError } from "../errors.ts";
import { preconditionFailed } from "./errors.ts";
import type { Revision } from "../store/revision.ts";

/** Which revision must be active. */
export type Conditions = {
  /** Whether the condition is a conditional header of HTTP. */
  readonly isHeader: boolean;
  /** Returns the revision that must still be active at the commit; undefined: any. Throws `precondition_failed`. */
  evaluate(active: Revision): string | undefined;
};

/** `rev` is the field of the request, to which the gateway binds If-Match. */
export function revCondition(rev: string | undefined): Conditions {
  return { isHeader: false, evaluate: () => rev };
}

/** Evaluates the conditional headers of an HTTP request in the order of RFC 9110, section 13.2.2. */
export function headerConditions(rev: string | undefined, headers: Headers): Conditions {
  const noneMatch = headers.get("if-none-match");
  const unmodifiedSinceMs = parseHttpDate(headers.get("if-unmodified-since") ?? "");
  const hasMatch = headers.has("if-match");
  const isDated = !hasMatch && !Number.isNaN(unmodifiedSinceMs);
  if (noneMatch === null && !isDated) {
    return { isHeader: hasMatch, evaluate: () => rev };
  }
  return {
    isHeader: true,
    evaluate(active) {
      // HTTP dates have no fractions of seconds.
      if (isDated && Math.floor(active.committedAtMs / 1000) * 1000 > unmodifiedSinceMs) {
        throw preconditionFailed(
          `If-Unmodified-Since: the flows were deployed at ${new Date(active.committedAtMs).toUTCString()}`,
        );
      }
      if (noneMatch !== null && matches(noneMatch, active.rev)) {
        throw preconditionFailed(`If-None-Match: the active revision is ${JSON.stringify(active.rev)}`);
      }
      return rev ?? active.rev;
    },
  };
}

/** NaN if it is not an HTTP-date (RFC 9110, section 5.6.7), which is then ignored. */
function parseHttpDate(value: string): number {
  return /^(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,? /.test(value)
    ? // The format of asctime ends with the year and has no zone: it is UTC (RFC 9110, section 5.6.7).
      Date.parse(/ \d{4}$/.test(value) ? `${value} GMT` : value)
    : Number.NaN;
}

/** Whether a list of entity tags contains that of a revision, which may have the suffix of a content coding. */
function matches(list: string, rev: string): boolean {
  if (list.trim() === "*") {
    return true;
  }
  const tags = [...list.matchAll(/"([^"]*)"/g)].map(([, tag = ""]) => tag);
  if (tags.length === 0) {
    throw new FlowgateError("invalid_argument", 'If-None-Match: must be * or a list of entity tags, such as "abc"');
  }
  return tags.some((tag) => tag === rev || tag.replace(/-[a-z]+$/, "") === rev);
}
