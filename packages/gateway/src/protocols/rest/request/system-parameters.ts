import { RequestError } from "../../../http/request-error.ts";
import { boundFieldsOf, type Route, type Variant } from "../../../routing/route.ts";
import { decodeParameter } from "../../../routing/percent.ts";
import { findBinding } from "../../../schema/bound-fields.ts";
import { messageParameters } from "./parameter-name.ts";

/**
 * The system parameters of Google's APIs (cloud.google.com/apis/docs/system-parameters). A field with such a name takes precedence.
 */
const names = [
  "$.xgafv",
  "$alt",
  "alt",
  "$apiVersion",
  "$callback",
  "callback",
  "$ct",
  "$fields",
  "fields",
  "$key",
  "key",
  "$prettyPrint",
  "prettyPrint",
  "$quotaUser",
  "quotaUser",
  "$userProject",
  "userProject",
  "userIp",
  "access_token",
  "oauth_token",
  "uploadType",
  "upload_protocol",
];

/** The system parameters of a route: without the names of fields that its query can set. */
export function systemParametersOf(route: Route, { body }: Variant): string[] {
  const { byName } = messageParameters(route.method.input);
  const boundFields = boundFieldsOf(route, body);
  return names.filter((name) => {
    const parameter = byName.get(name);
    return (
      parameter === undefined || parameter.noQuery || typeof findBinding(boundFields, parameter.field) === "string"
    );
  });
}

/** The response that the system parameter `$alt` or `alt` requests. */
type Alt = {
  readonly format: AltFormat;
  /** Whether enum values are numbers, as generated clients of Google's request it. */
  readonly enumAsInteger: boolean;
};

type AltFormat = "json" | "media" | "sse";

/** Reads `$alt` or `alt` of a request target; throws a RequestError for a format that the operation does not have. */
export type AltReader = (target: string) => Alt;

const defaultAlt: Alt = { format: "json", enumAsInteger: false };

/** Compiles the reader of `$alt` and `alt`, such as `json;enum-encoding=int`. */
export function createAltReader(
  route: Route,
  variant: Variant,
  { formats, ignoredQuery }: { readonly formats: readonly AltFormat[]; readonly ignoredQuery: readonly string[] },
): AltReader {
  const own = systemParametersOf(route, variant).filter(
    (name) => (name === "alt" || name === "$alt") && !ignoredQuery.includes(name),
  );
  return (target) => {
    const [value, ...others] = findParameters(target, own);
    if (value === undefined) {
      return defaultAlt;
    }
    if (others.some((other) => other !== value)) {
      throw new RequestError(400, undefined, "alt: set more than once, with different values");
    }
    const [, name, encoding] = /^(\w+)(;enum-encoding=int)?$/.exec(value) ?? [];
    const format = formats.find((each) => each === name);
    if (format === undefined) {
      throw new RequestError(
        400,
        undefined,
        `alt: must be ${formats.join(" or ")}, and can be followed by ;enum-encoding=int`,
      );
    }
    return { format, enumAsInteger: encoding !== undefined };
  };
}

/** The values of the query parameters with these names. */
function findParameters(target: string, own: readonly string[]): string[] {
  const questionMark = target.indexOf("?");
  const parameters = questionMark === -1 ? [] : target.slice(questionMark + 1).split("&");
  return parameters.flatMap((parameter) => {
    const [name = "", ...value] = parameter.split("=");
    return own.includes(decodeParameter(name, "query")) ? [decodeParameter(value.join("="), "query")] : [];
  });
}
