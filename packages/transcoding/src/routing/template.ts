/** A path template of google.api.http, taken apart. */
export type Template = {
  /** Those of variables too: `/v1/{name=shelves/*}` has three. */
  readonly segments: readonly Segment[];
  readonly variables: readonly TemplateVariable[];
  /** As it was written, without its colon; empty for none. */
  readonly verb: string;
};

export type Segment =
  | { readonly kind: "*" | "**" }
  /** `text` is as it was written; `decoded`, without percent-escapes, is what is compared. */
  | { readonly kind: "literal"; readonly text: string; readonly decoded: string };

export type TemplateVariable = {
  /** Names of fields as in the .proto, joined by dots. */
  readonly fieldPath: string;
  /** The first of its segments, and the one behind its last. */
  readonly start: number;
  readonly end: number;
  /** Its value can be several segments: then "%2F" is not decoded, lest a slash in a segment be taken for one between two. */
  readonly multi: boolean;
};

export type TemplateOptions = {
  /** The grammar of http.proto, in which "**" is the last segment, and there is one segment at least. */
  readonly strict?: boolean;
};

/** What RFC 3986 lets a path segment hold, without what the template itself takes as signs: ":" and "*". */
const literalPattern = /(?:[\w\-.~!$&'()+,;=@%]|[^\p{ASCII}\p{C}\p{Z}])*/uy;
const identPattern = /[A-Za-z_]\w*/y;

/**
 * Parses a template; throws an Error that says what is wrong, and at which character, counted from 1.
 *
 *     Template  = "/" [ Segments [ ":" LITERAL ] ] ;
 *     Segments  = Segment { "/" Segment } ;
 *     Segment   = "*" | "**" | LITERAL | Variable ;
 *     Variable  = "{" FieldPath [ "=" Segments ] "}" ;
 *     FieldPath = IDENT { "." IDENT } ;
 *
 * No variable stands inside another, and nothing but literals behind "**". That is more than http.proto has:
 * there "**" is the last segment, and "/" alone is no template.
 */
export function parseTemplate(source: string, { strict = false }: TemplateOptions = {}): Template {
  const segments: Segment[] = [];
  const variables: TemplateVariable[] = [];
  let verb = "";
  let rest = false;
  let at = 0;

  const problem = (what: string, where = at): Error =>
    new Error(`the template "${source}" is wrong at character ${where + 1}: ${what}`);
  const take = (sign: string): boolean => {
    const boundFields = source.startsWith(sign, at);
    at += boundFields ? sign.length : 0;
    return boundFields;
  };
  const takeAll = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const text = pattern.exec(source)?.[0] ?? "";
    at += text.length;
    return text;
  };
  const parseLiteral = (what: string): Segment & { kind: "literal" } => {
    const start = at;
    const text = takeAll(literalPattern);
    if (text === "") {
      throw problem(at === source.length || "/:}".includes(source[at] ?? "") ? `${what} is empty` : unexpected());
    }
    try {
      return { kind: "literal", text, decoded: decodeURIComponent(text) };
    } catch {
      throw problem(`"${text}" has a bad percent-escape`, start);
    }
  };
  const unexpected = (): string => `"${String.fromCodePoint(source.codePointAt(at) ?? 0)}" can't stand here`;

  const parseVariable = (): void => {
    const opened = at - 1;
    const names: string[] = [];
    do {
      const name = takeAll(identPattern);
      if (name === "") {
        throw problem(at === source.length ? "the variable is not closed" : "a field's name was expected");
      }
      names.push(name);
    } while (take("."));
    const fieldPath = names.join(".");
    const start = segments.length;
    if (take("=")) {
      parseSegments(true);
    } else {
      pushWildcard("*", opened);
    }
    if (!take("}")) {
      throw problem(at === source.length ? "the variable is not closed" : unexpected());
    }
    if (variables.some((other) => other.fieldPath === fieldPath)) {
      throw problem(`the variable "${fieldPath}" stands twice`, opened);
    }
    const end = segments.length;
    variables.push({ fieldPath, start, end, multi: end - start > 1 || segments[start]?.kind === "**" });
  };
  const pushWildcard = (kind: "*" | "**", where: number): void => {
    if (rest) {
      throw problem('no wildcard can stand behind "**"', where);
    }
    segments.push({ kind });
    rest = kind === "**";
  };
  const parseSegment = (inVariable: boolean): void => {
    const start = at;
    if (strict && rest) {
      throw problem('"**" must be the last segment');
    }
    if (take("{")) {
      if (inVariable) {
        throw problem("a variable can't stand inside another", start);
      }
      parseVariable();
    } else if (take("*")) {
      const kind = take("*") ? "**" : "*";
      if (take("*")) {
        throw problem('"***" is no wildcard', start);
      }
      pushWildcard(kind, start);
    } else {
      segments.push(parseLiteral("the segment"));
    }
    const next = source[at] ?? "";
    if (next === "{" || next === "*" || source[start] === "{" || source[start] === "*") {
      if (at < source.length && !"/:}".includes(next)) {
        throw problem("a variable or a wildcard takes a whole segment");
      }
    }
  };
  const parseSegments = (inVariable: boolean): void => {
    do {
      parseSegment(inVariable);
    } while (take("/"));
    if (inVariable && source[at] === ":") {
      throw problem("a verb can't stand inside a variable");
    }
  };

  if (!take("/")) {
    throw problem('it must begin with "/"');
  }
  if (at < source.length || strict) {
    parseSegments(false);
    if (take(":")) {
      verb = parseLiteral("the verb").text;
    }
    if (at < source.length) {
      throw problem(verb === "" ? unexpected() : `${unexpected()}: the verb is the end`);
    }
  }
  return { segments, variables, verb };
}

/** Writes a template so that parsing it gives an equal one. */
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
 * Makes the path that a client requests, from the value of each variable by its field path. Throws an Error
 * where a value is missing or does not fit its variable, or a wildcard belongs to none.
 */
export function expandTemplate(template: Template, values: Readonly<Record<string, string>>): string {
  const { segments, variables, verb } = template;
  const parts: string[] = [];
  let index = 0;
  for (const variable of [...variables, { start: segments.length, end: segments.length, fieldPath: "" }]) {
    for (const segment of segments.slice(index, variable.start)) {
      if (segment.kind !== "literal") {
        throw new Error(`the template ${formatTemplate(template)} has a wildcard that belongs to no variable`);
      }
      parts.push(segment.text);
    }
    index = variable.end;
    if ("multi" in variable) {
      const value = Object.hasOwn(values, variable.fieldPath) ? values[variable.fieldPath] : undefined;
      const expanded = value === undefined ? undefined : expandVariable(template, variable, value);
      if (expanded === undefined) {
        const given = value === undefined ? "has no value" : `can't be "${value}"`;
        throw new Error(`the variable "${variable.fieldPath}" of ${formatTemplate(template)} ${given}`);
      }
      parts.push(...expanded);
    }
  }
  return `/${parts.join("/")}${verb === "" ? "" : `:${verb}`}`;
}

/** The segments of a path that the variable pathVariables as this value; undefined where none are. */
function expandVariable({ segments }: Template, variable: TemplateVariable, value: string): string[] | undefined {
  const own = segments.slice(variable.start, variable.end);
  const decode = variable.multi ? decodeSegments : decodeURIComponent;
  const encode = variable.multi ? encodeSegments : encodeSegment;
  const parts = variable.multi && value !== "" ? value.split("/") : value === "" ? [] : [value];
  const rest = own.findIndex(({ kind }) => kind === "**");
  if (rest === -1 ? parts.length !== own.length : parts.length < own.length - 1) {
    return undefined;
  }
  const behind = parts.length - own.length;
  const fits = own.every((segment, index) => {
    const part = parts[rest === -1 || index < rest ? index : index + behind];
    return segment.kind === "literal" ? part === decode(segment.text) : segment.kind === "**" || part !== "";
  });
  return fits ? parts.map(encode) : undefined;
}

/** Everything but what RFC 3986 calls unreserved: a colon too, lest it begin a verb. */
function encodeSegment(text: string): string {
  return encodeURIComponent(text).replaceAll(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** "%2F" stays: in such a value it stands for itself, as decodeSegments leaves it. */
function encodeSegments(text: string): string {
  return text
    .split(/(%2f)/i)
    .map((part, index) => (index % 2 === 0 ? encodeSegment(part) : part))
    .join("");
}

/** Decodes several segments: everything but "%2F", which stays as it was written. Throws a URIError for a bad escape. */
export function decodeSegments(text: string): string {
  return /%2f/i.test(text)
    ? text
        .split(/(%2f)/i)
        .map((part, index) => (index % 2 === 0 ? decodeURIComponent(part) : part))
        .join("")
    : decodeURIComponent(text);
}
