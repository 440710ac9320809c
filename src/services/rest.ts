import type { HandlerContext } from "@connectrpc/connect";
import type { ResponseFormat } from "../deployments/analysis/messages.ts";
import { originOf, peerKey } from "../auth/caller.ts";
import type { Conditions } from "../deployments/deployment.ts";
import { preconditionFailed } from "../deployments/errors.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { Revision } from "../store/revision.ts";

// In what calls over REST differ from those over RPC protocols. Everything else in services/ is the same for all protocols.

function isRest(context: HandlerContext): boolean {
  return originOf(context).protocol === "rest";
}

/** The format of a response that is encoded in a thread. */
export function responseFormatOf(context: HandlerContext): ResponseFormat {
  return isRest(context) ? "http" : (context.values.get(peerKey).messageFormat ?? "proto");
}

/** `rev` is the field of the request, to which the gateway binds If-Match. Over REST, other conditional headers apply too. */
export function readConditions(rev: string | undefined, context: HandlerContext): Conditions {
  return isRest(context)
    ? headerConditions(rev, context.requestHeader)
    : { isPrecondition: false, evaluate: () => rev };
}

/** Decodes a field that is bound to a header: Node decodes those as ISO 8859-1, but clients such as curl send UTF-8. */
export function decodeHeaderText(text: string, context: HandlerContext): string {
  if (!isRest(context) || /[^\p{ASCII}\u0080-\u00ff]/u.test(text)) {
    return text;
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(text, "latin1"));
  } catch {
    return text;
  }
}

/** Throws if the header was sent twice: Node joins both to one value, and proxies may (RFC 9110, section 5.3). */
export function assertSingleKey(key: string | undefined, context: HandlerContext): void {
  if (key?.includes(",") === true && isRest(context)) {
    throw new FlowgateError("invalid_argument", "Idempotency-Key: must be a single key, without a comma");
  }
}

/** Evaluates the conditional headers of an HTTP request in the order of RFC 9110, section 13.2.2. */
export function headerConditions(rev: string | undefined, headers: Headers): Conditions {
  const noneMatch = headers.get("if-none-match");
  const unmodifiedSinceMs = parseHttpDate(headers.get("if-unmodified-since") ?? "");
  const hasMatch = headers.has("if-match");
  const isDated = !hasMatch && !Number.isNaN(unmodifiedSinceMs);
  if (noneMatch === null && !isDated) {
    return { isPrecondition: hasMatch, evaluate: () => rev };
  }
  return {
    isPrecondition: true,
    evaluate(active: Revision) {
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

/** True if a list of entity tags contains the tag of a revision, which may have the suffix of a content coding. */
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
