export type Template = {
  /** All segments, variables included: `/v1/{name=shelves/*}` has three. */
  readonly segments: readonly Segment[];
  readonly variables: readonly TemplateVariable[];
  /** The verb as written in the template, without the colon; empty if there is none. */
  readonly verb: string;
};

export type Segment =
  | { readonly kind: "*" | "**" }
  /** `text` as written in the template; `decoded` without percent-escapes, for comparison. */
  | { readonly kind: "literal"; readonly text: string; readonly decoded: string };

export type TemplateVariable = {
  /** Proto field names, joined by dots. */
  readonly fieldPath: string;
  /** The range of its segments: the index of the first, and that after the last. */
  readonly start: number;
  readonly end: number;
  /** True if its value can have several segments. "%2F" is not decoded then, so that it can't be confused with a separator. */
  readonly multi: boolean;
};

export type TemplateOptions = {
  /** Accepts only the grammar of http.proto: "**" must be the last segment, and there must be at least one segment. */
  readonly strict?: boolean;
  /** Accepts "*" after "**" too, as in some of Google's templates. */
  readonly google?: boolean;
};

/** The characters of a path segment (RFC 3986, section 3.3) without ":" and "*", which are syntax of the template. */
const literalPattern = /(?:[\w\-.~!$&'()+,;=@%]|[^\p{ASCII}\p{C}\p{Z}])*/uy;
const identPattern = /[A-Za-z_]\w*/y;

/**
 * Parses a template. Throws an Error with the problem and the position of the character, counted from 1.
 *
 *     Template  = "/" [ Segments [ ":" LITERAL ] ] ;
 *     Segments  = Segment { "/" Segment } ;
 *     Segment   = "*" | "**" | LITERAL | Variable ;
 *     Variable  = "{" FieldPath [ "=" Segments ] "}" ;
 *     FieldPath = IDENT { "." IDENT } ;
 *
 * Variables can't be nested, and only literals can follow "**", with `google` also "*". This extends the grammar of http.proto,
 * where "**" must be the last segment and "/" alone is not a template; `strict` disables the extensions.
 */
export function parseTemplate(source: string, { strict = false, google = false }: TemplateOptions = {}): Template {
  const segments: Segment[] = [];
  const variables: TemplateVariable[] = [];
  let verb = "";
  let afterMultiWildcard = false;
  let position = 0;

  const problem = (what: string, where = position): Error =>
    new Error(`the template "${source}" is invalid at character ${where + 1}: ${what}`);
  const consume = (token: string): boolean => {
    const found = source.startsWith(token, position);
    position += found ? token.length : 0;
    return found;
  };
  const consumeAll = (pattern: RegExp): string => {
    pattern.lastIndex = position;
    const text = pattern.exec(source)?.[0] ?? "";
    position += text.length;
    return text;
  };
  const parseLiteral = (what: string): Segment & { kind: "literal" } => {
    const start = position;
    const text = consumeAll(literalPattern);
    if (text === "") {
      throw problem(
        position === source.length || "/:}".includes(source[position] ?? "") ? `${what} is empty` : unexpected(),
      );
    }
    try {
      return { kind: "literal", text, decoded: decodeURIComponent(text) };
    } catch {
      throw problem(`"${text}" has a bad percent-escape`, start);
    }
  };
  const unexpected = (): string => `unexpected "${String.fromCodePoint(source.codePointAt(position) ?? 0)}"`;

  const parseVariable = (): void => {
    const opened = position - 1;
    const names: string[] = [];
    do {
      const name = consumeAll(identPattern);
      if (name === "") {
        throw problem(position === source.length ? "the variable is not closed" : "a field name was expected");
      }
      names.push(name);
    } while (consume("."));
    const fieldPath = names.join(".");
    const start = segments.length;
    if (consume("=")) {
      parseSegments(true);
    } else {
      pushWildcard("*", opened);
    }
    if (!consume("}")) {
      throw problem(position === source.length ? "the variable is not closed" : unexpected());
    }
    if (variables.some((other) => other.fieldPath === fieldPath)) {
      throw problem(`the variable "${fieldPath}" is declared twice`, opened);
    }
    const end = segments.length;
    variables.push({ fieldPath, start, end, multi: end - start > 1 || segments[start]?.kind === "**" });
  };
  const pushWildcard = (kind: "*" | "**", where: number): void => {
    if (afterMultiWildcard && (kind === "**" || !google)) {
      throw problem(google ? '"**" can occur only once' : 'no wildcard can follow "**"', where);
    }
    segments.push({ kind });
    afterMultiWildcard ||= kind === "**";
  };
  const parseSegment = (inVariable: boolean): void => {
    const start = position;
    if (strict && afterMultiWildcard) {
      throw problem('"**" must be the last segment');
    }
    if (consume("{")) {
      if (inVariable) {
        throw problem("variables can't be nested", start);
      }
      parseVariable();
    } else if (consume("*")) {
      const kind = consume("*") ? "**" : "*";
      if (consume("*")) {
        throw problem('"***" is not a wildcard', start);
      }
      pushWildcard(kind, start);
    } else {
      segments.push(parseLiteral("the segment"));
    }
    const next = source[position] ?? "";
    if (next === "{" || next === "*" || source[start] === "{" || source[start] === "*") {
      if (position < source.length && !"/:}".includes(next)) {
        throw problem("a variable or wildcard must be a whole segment");
      }
    }
  };
  const parseSegments = (inVariable: boolean): void => {
    do {
      parseSegment(inVariable);
    } while (consume("/"));
    if (inVariable && source[position] === ":") {
      throw problem("a verb can't be inside a variable");
    }
  };

  if (!consume("/")) {
    throw problem('it must begin with "/"');
  }
  if (position < source.length || strict) {
    parseSegments(false);
    if (consume(":")) {
      verb = parseLiteral("the verb").text;
    }
    if (position < source.length) {
      throw problem(verb === "" ? unexpected() : `${unexpected()}: the verb must be last`);
    }
  }
  return { segments, variables, verb };
}

export function formatTemplate({ segments, variables, verb }: Template): string {
  const starts = new Map(variables.map((variable) => [variable.start, variable]));
  const ends = new Set(variables.map(({ end }) => end - 1));
  const parts = segments.map((segment, index) => {
    const text = segment.kind === "literal" ? segment.text : segment.kind;
    const variable = starts.get(index);
    if (variable?.end === index + 1 && text === "*") {
      return `{${variable.fieldPath}}`;
    }
    return `${variable === undefined ? "" : `{${variable.fieldPath}=`}${text}${ends.has(index) ? "}" : ""}`;
  });
  return `/${parts.join("/")}${verb === "" ? "" : `:${verb}`}`;
}

/**
 * Expands a template to the path of a request, given the variables' values by field path. Throws an Error if a value is
 * missing or does not match its variable, or if the template has a wildcard outside of a variable.
 */
export function expandTemplate(template: Template, values: Readonly<Record<string, string>>): string {
  const { segments, variables, verb } = template;
  const parts: string[] = [];
  let index = 0;
  for (const variable of [...variables, { start: segments.length, end: segments.length, fieldPath: "" }]) {
    for (const segment of segments.slice(index, variable.start)) {
      if (segment.kind !== "literal") {
        throw new Error(`the template ${formatTemplate(template)} has a wildcard outside of a variable`);
      }
      parts.push(segment.text);
    }
    index = variable.end;
    if ("multi" in variable) {
      const value = Object.hasOwn(values, variable.fieldPath) ? values[variable.fieldPath] : undefined;
      const expanded = value === undefined ? undefined : expandVariable(template, variable, value);
      if (expanded === undefined) {
        const problem = value === undefined ? "has no value" : `can't be "${value}"`;
        throw new Error(`the variable "${variable.fieldPath}" of ${formatTemplate(template)} ${problem}`);
      }
      parts.push(...expanded);
    }
  }
  return `/${parts.join("/")}${verb === "" ? "" : `:${verb}`}`;
}

/**
 * The encoded path segments of a variable's value. As http.proto specifies, the slashes of a value of several segments separate
 * them, and "%" is always encoded, so that a server decodes the same value. Undefined if the value
 * does not match the variable.
 */
function expandVariable({ segments }: Template, variable: TemplateVariable, value: string): string[] | undefined {
  const own = segments.slice(variable.start, variable.end);
  const decode = variable.multi ? decodeSegments : decodeURIComponent;
  const parts = variable.multi && value !== "" ? value.split("/") : value === "" ? [] : [value];
  const multi = own.findIndex(({ kind }) => kind === "**");
  if (multi === -1 ? parts.length !== own.length : parts.length < own.length - 1) {
    return undefined;
  }
  const surplus = parts.length - own.length;
  const matches = own.every((segment, index) => {
    const part = parts[multi === -1 || index < multi ? index : index + surplus];
    return segment.kind === "literal" ? part === decode(segment.text) : segment.kind === "**" || part !== "";
  });
  if (!matches) {
    return undefined;
  }
  return parts.map((part, index) => {
    const segment =
      multi === -1 || index < multi ? own[index] : index > multi + surplus ? own[index - surplus] : undefined;
    return segment?.kind === "literal" ? segment.text : encodeSegment(part);
  });
}

/** Escapes all but the unreserved characters of RFC 3986, so that a colon does not start a verb. */
function encodeSegment(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Decodes a multi-segment value, except for "%2F". Throws a URIError for an invalid escape. */
export function decodeSegments(text: string): string {
  return /%2f/i.test(text)
    ? text
        .split(/(%2f)/i)
        .map((part, index) => (index % 2 === 0 ? decodeURIComponent(part) : part))
        .join("")
    : decodeURIComponent(text);
}
