import { RequestError } from "../http/request-error.ts";
import { decodePathVariable } from "./percent.ts";
import { formatTemplate, type Template } from "./template.ts";

export type RegisteredRoute<T> = {
  /** "*" is any method that no other route of an equal template names. */
  readonly httpMethod: string;
  readonly template: Template;
  /** What it leads to. */
  readonly value: T;
  /** For the error of two routes that match the same requests. */
  readonly name: string;
};

type Match<T> = {
  readonly value: T;
  /** What the template's variables matched, in their order, raw: decodePathVariable decodes, once. */
  readonly pathVariables: readonly string[];
};

/**
 * Finds routes by the raw path of a request, without its query: it is split as it was sent, and then each segment
 * decoded that is compared with a literal.
 *
 * Of several templates that match, the one wins that is more literal at the first segment in which they differ:
 * a literal before "*", "*" before "**", and behind "**" the longer end. One whose verb the path ends with goes
 * before all without. The order of routes has no say.
 */
export type Router<T> = {
  /**
   * The best route whose template matches the path and which takes the method: HEAD is taken by GET too.
   * undefined: none. A RequestError: a wildcard without a variable matched what can't be decoded.
   */
  find(httpMethod: string, path: string): Match<T> | RequestError | undefined;
  /** The methods of every template that matches the path; empty where it is nobody's. */
  methodsOf(path: string): Set<string>;
};

/** One place in the tree of templates: what was matched so far is the way that leads to it. */
type Node<T> = {
  /** By the decoded segment. */
  readonly literals: Map<string, Node<T>>;
  any: Node<T> | undefined;
  /** "**": the segments behind it, the last one first. */
  rest: Node<T> | undefined;
  /** What ends here, by verb. */
  readonly leaves: Map<string, Leaf<T>>;
};

/** The routes of equal templates, by method. */
type Leaf<T> = Map<string, Entry<T>>;

type Entry<T> = {
  readonly route: RegisteredRoute<T>;
  readonly extract: ExtractVariables;
  readonly freeWildcard: boolean;
  /** Where all segments are literals: then variables always hold the same. */
  readonly match: Match<T>;
};

/** One search: the path up to `end`, where its verb begins, or behind its last segment. */
type Search<T> = {
  readonly path: string;
  readonly end: number;
  readonly verb: string;
  /** Some segment may have to be decoded before it is compared. */
  readonly escaped: boolean;
  /** Where each segment begins on the way to the node that is looked at; behind the last segment it is `end + 1`. */
  readonly starts: number[];
  accept(leaf: Leaf<T>): Entry<T> | undefined;
};

type ExtractVariables = (search: Pick<Search<unknown>, "path" | "end" | "starts">) => readonly string[];

/** Anything but ASCII that stands for itself. */
const special = /[^!-$&-~]/;

/** Throws where two routes match the same requests with the same method; mere overlap is settled by precedence. */
export function createRouter<T>(routes: readonly RegisteredRoute<T>[]): Router<T> {
  const root = createNode<T>();
  // A path of literals alone needs no look at the tree: nothing goes before it.
  const literalPaths = new Map<string, Leaf<T>>();
  const verbs = new Set<string>();
  for (const route of routes) {
    const { template } = route;
    const leaf = growLeaf(root, template);
    const rival = leaf.get(route.httpMethod)?.route;
    if (rival !== undefined) {
      const own = `${route.httpMethod} ${formatTemplate(template)}`;
      throw new Error(
        `${own} of ${route.name} matches the same requests as ${formatTemplate(rival.template)} of ${rival.name}`,
      );
    }
    leaf.set(route.httpMethod, {
      route,
      extract: createVariableExtractor(template),
      freeWildcard: hasFreeWildcard(template),
      match: {
        value: route.value,
        pathVariables: template.variables.map(({ start, end }) => textOf(template, start, end)),
      },
    });
    if (template.segments.every(({ kind }) => kind === "literal")) {
      literalPaths.set(formatTemplate({ ...template, variables: [] }), leaf);
    }
    if (template.verb !== "") {
      verbs.add(decodeURIComponent(template.verb));
    }
  }

  const search = (
    path: string,
    accept: Search<T>["accept"],
    found: (entry: Entry<T>, search: Search<T>) => Match<T> | RequestError,
  ): Match<T> | RequestError | undefined => {
    if (!path.startsWith("/")) {
      return undefined;
    }
    const escaped = special.test(path);
    const colon = verbs.size === 0 ? -1 : path.lastIndexOf(":");
    if (colon !== -1 && colon > path.lastIndexOf("/")) {
      const verb = decodePathVariable(path.slice(colon + 1), false);
      if (verb !== undefined && verbs.has(verb)) {
        const bounds = { path, end: colon, verb, escaped, starts: [], accept };
        const entry = descend(root, 1, 0, bounds);
        if (entry !== undefined) {
          return found(entry, bounds);
        }
      }
    }
    const bounds = { path, end: path.length, verb: "", escaped, starts: [], accept };
    const entry = descend(root, 1, 0, bounds);
    return entry === undefined ? undefined : found(entry, bounds);
  };
  const matchOf = (entry: Entry<T>, bounds: Search<T>): Match<T> | RequestError =>
    entry.freeWildcard && decodePathVariable(bounds.path, false) === undefined
      ? new RequestError(400, "invalid_argument", "the path is badly encoded: percent-escapes of UTF-8 were expected")
      : { value: entry.route.value, pathVariables: entry.extract(bounds) };

  return {
    find(httpMethod, path) {
      const leaf = literalPaths.get(path);
      const entry = leaf === undefined ? undefined : entryFor(leaf, httpMethod);
      return entry?.match ?? search(path, (each) => entryFor(each, httpMethod), matchOf);
    },
    methodsOf(path) {
      const methods = new Set<string>();
      const collect = (leaf: Leaf<T>): undefined => {
        for (const method of leaf.keys()) {
          methods.add(method);
        }
      };
      search(path, collect, matchOf);
      return methods;
    },
  };
}

function entryFor<T>(leaf: Leaf<T>, httpMethod: string): Entry<T> | undefined {
  return leaf.get(httpMethod) ?? (httpMethod === "HEAD" ? leaf.get("GET") : undefined) ?? leaf.get("*");
}

function createNode<T>(): Node<T> {
  return { literals: new Map(), any: undefined, rest: undefined, leaves: new Map() };
}

function growLeaf<T>(root: Node<T>, { segments, verb }: Template): Leaf<T> {
  const rest = segments.findIndex(({ kind }) => kind === "**");
  const before = rest === -1 ? segments : segments.slice(0, rest);
  const behind = rest === -1 ? [] : segments.slice(rest + 1).toReversed();
  let node = root;
  for (const segment of before) {
    node = segment.kind === "literal" ? growLiteral(node, segment.decoded) : (node.any ??= createNode());
  }
  if (rest !== -1) {
    node = node.rest ??= createNode();
  }
  for (const segment of behind) {
    if (segment.kind !== "literal") {
      throw new Error('only literals can stand behind "**"');
    }
    node = growLiteral(node, segment.decoded);
  }
  const decodedVerb = decodeURIComponent(verb);
  const leaf = node.leaves.get(decodedVerb) ?? new Map<string, Entry<T>>();
  node.leaves.set(decodedVerb, leaf);
  return leaf;
}

function growLiteral<T>(node: Node<T>, decoded: string): Node<T> {
  const child = node.literals.get(decoded) ?? createNode<T>();
  node.literals.set(decoded, child);
  return child;
}

/**
 * Follows the tree along the path, from the segment that begins at `from`. Each node of the tree is visited once at
 * most, for just one way leads to it: a search costs what there is of templates, however long the path.
 */
function descend<T>(node: Node<T>, from: number, depth: number, search: Search<T>): Entry<T> | undefined {
  const { path, end, starts } = search;
  starts[depth] = from;
  // "/" is no segment, whereas the end of "/a/" is an empty one.
  if (from > end || (depth === 0 && from === end)) {
    return acceptAt(node, search) ?? (node.rest && ascend(node.rest, end, from, search));
  }
  const slash = path.indexOf("/", from);
  const to = slash === -1 ? end : slash;
  // Only "**" matches an empty segment.
  if (to > from) {
    const literal = node.literals.size === 0 ? undefined : segmentOf(search, from, to);
    const child = literal === undefined ? undefined : node.literals.get(literal);
    const found =
      (child && descend(child, to + 1, depth + 1, search)) ??
      (node.any && descend(node.any, to + 1, depth + 1, search));
    if (found !== undefined) {
      return found;
    }
  }
  return node.rest && ascend(node.rest, end, from, search);
}

/** Follows the literals behind "**" from the end of the path backwards, no further than `least`. */
function ascend<T>(node: Node<T>, to: number, least: number, search: Search<T>): Entry<T> | undefined {
  if (node.literals.size > 0 && to > least) {
    const from = search.path.lastIndexOf("/", to - 1) + 1;
    if (from >= least && from < to) {
      const literal = segmentOf(search, from, to);
      const child = literal === undefined ? undefined : node.literals.get(literal);
      const found = child && ascend(child, from - 1, least, search);
      if (found !== undefined) {
        return found;
      }
    }
  }
  return acceptAt(node, search);
}

/** undefined where it can't be decoded: it equals no literal then. */
function segmentOf({ path, escaped }: Search<unknown>, from: number, to: number): string | undefined {
  const raw = path.slice(from, to);
  return escaped ? decodePathVariable(raw, false) : raw;
}

function acceptAt<T>(node: Node<T>, search: Search<T>): Entry<T> | undefined {
  const leaf = node.leaves.get(search.verb);
  return leaf && search.accept(leaf);
}

/** Compiles what takes the variables' values out of a path that the template matches. */
function createVariableExtractor({ segments, variables }: Template): ExtractVariables {
  const rest = segments.findIndex(({ kind }) => kind === "**");
  const known = rest === -1 ? segments.length : rest;
  const spans = variables.map(({ start, end }) => ({
    start,
    end,
    // Behind "**" segments are counted from the end.
    startFromEnd: start > known ? segments.length - start : undefined,
    endFromEnd: end > known ? segments.length - end : undefined,
  }));
  return (search) => {
    const { path, starts } = search;
    const pathVariables: string[] = [];
    for (const span of spans) {
      const from =
        span.startFromEnd === undefined ? (starts[span.start] ?? 0) : slashBefore(search, span.startFromEnd) + 1;
      const to = span.endFromEnd === undefined ? (starts[span.end] ?? 0) - 1 : slashBefore(search, span.endFromEnd);
      pathVariables.push(from < to ? path.slice(from, to) : "");
    }
    return pathVariables;
  };
}

/** Where the slash before so many last segments is; before none of them is the end. */
function slashBefore({ path, end }: Pick<Search<unknown>, "path" | "end">, count: number): number {
  let at = end;
  for (let left = count; left > 0; left--) {
    at = path.lastIndexOf("/", at - 1);
  }
  return at;
}

function textOf({ segments }: Template, start: number, end: number): string {
  return segments
    .slice(start, end)
    .map((segment) => (segment.kind === "literal" ? segment.text : segment.kind))
    .join("/");
}

/** Some wildcard belongs to no variable: nobody will decode what it matches. */
function hasFreeWildcard({ segments, variables }: Template): boolean {
  return segments.some(
    ({ kind }, index) => kind !== "literal" && !variables.some(({ start, end }) => start <= index && index < end),
  );
}
