import { RequestError } from "../http/request-error.ts";
import { decodePathVariable } from "./percent.ts";
import { formatTemplate, type Segment, type Template } from "./template.ts";

export type RegisteredRoute<T> = {
  /** An HTTP method; "*" matches any method that no other route of an equal template has. */
  readonly httpMethod: string;
  readonly template: Template;
  readonly value: T;
  /** Identifies the route in the error about two routes that match the same requests. */
  readonly name: string;
};

type Match<T> = {
  readonly value: T;
  /** The values of the template's variables, in their order, still percent-encoded. `decodePathVariable` decodes them. */
  readonly pathVariables: readonly string[];
};

/**
 * Finds routes by the undecoded path of a request, without its query. The path is split into segments before
 * percent-escapes are decoded, so that "%2F" is not a separator.
 *
 * If several templates match, the first segment in which they differ decides: a literal takes precedence over "*",
 * "*" over "**", and after "**" the longer suffix wins. A template with a verb takes precedence over those without.
 * The order of declaration does not matter.
 */
export type Router<T> = {
  /**
   * Returns the route of the highest precedence that matches path and method, or undefined. HEAD also matches routes
   * of GET. A RequestError is returned if a wildcard outside of a variable matches text that can't be decoded.
   */
  find(httpMethod: string, path: string): Match<T> | RequestError | undefined;
  /** The HTTP methods of all templates that match the path; empty if none does. */
  methodsOf(path: string): Set<string>;
};

/** A node of the segment trie; the edges from the root to it are the segments matched so far. */
type Node<T> = {
  /** The children for literal segments, by decoded text. */
  readonly literals: Map<string, Node<T>>;
  /** The child for "*". */
  wildcard: Node<T> | undefined;
  /** The child for "**". Its subtree has the segments that follow "**" in reverse order. */
  multiWildcard: Node<T> | undefined;
  /** The templates that end here, by decoded verb. */
  readonly leaves: Map<string, Leaf<T>>;
};

/** The routes of equal templates, by HTTP method. */
type Leaf<T> = Map<string, Entry<T>>;

type Entry<T> = {
  readonly route: RegisteredRoute<T>;
  readonly extract: ExtractVariables;
  /** True if some wildcard is not part of a variable, so that binding does not decode its match. */
  readonly hasUnboundWildcard: boolean;
  /** The match of a template that consists of literals only, where variables have constant values. */
  readonly literalMatch: Match<T>;
};

type Search<T> = {
  readonly path: string;
  /** The end of the segments: the index of the verb's colon, or the length of the path. */
  readonly end: number;
  readonly verb: string;
  /** True if the path has characters to decode before segments are compared with literals. */
  readonly escaped: boolean;
  /** The start index of each segment matched so far; `end + 1` after the last segment. */
  readonly starts: number[];
  /** Returns the entry of a matching template to stop at, or undefined to continue the search. */
  accept(leaf: Leaf<T>): Entry<T> | undefined;
};

type ExtractVariables = (search: Pick<Search<unknown>, "path" | "end" | "starts">) => readonly string[];

/** Any character that does not represent itself in a path. */
const special = /[^!-$&-~]/;

/** Throws where two routes match the same requests with the same method; mere overlap is settled by precedence. */
export function createRouter<T>(routes: readonly RegisteredRoute<T>[]): Router<T> {
  const root = createNode<T>();
  // Templates of literals only take precedence over all others, and are found without a search.
  const literalPaths = new Map<string, Leaf<T>>();
  const verbs = new Set<string>();
  for (const route of routes) {
    const { template } = route;
    const leaf = insertTemplate(root, template);
    const conflicting = leaf.get(route.httpMethod)?.route;
    if (conflicting !== undefined) {
      const pattern = `${route.httpMethod} ${formatTemplate(template)}`;
      const other = `${formatTemplate(conflicting.template)} of ${conflicting.name}`;
      throw new Error(`${pattern} of ${route.name} matches the same requests as ${other}`);
    }
    leaf.set(route.httpMethod, {
      route,
      extract: createVariableExtractor(template),
      hasUnboundWildcard: hasUnboundWildcard(template),
      literalMatch: {
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
    toMatch: (entry: Entry<T>, search: Search<T>) => Match<T> | RequestError,
  ): Match<T> | RequestError | undefined => {
    if (!path.startsWith("/")) {
      return undefined;
    }
    const escaped = special.test(path);
    const colon = verbs.size === 0 ? -1 : path.lastIndexOf(":");
    if (colon !== -1 && colon > path.lastIndexOf("/")) {
      const verb = decodePathVariable(path.slice(colon + 1), false);
      if (verb !== undefined && verbs.has(verb)) {
        const state = { path, end: colon, verb, escaped, starts: [], accept };
        const entry = matchForward(root, 1, 0, state);
        if (entry !== undefined) {
          return toMatch(entry, state);
        }
      }
    }
    const state = { path, end: path.length, verb: "", escaped, starts: [], accept };
    const entry = matchForward(root, 1, 0, state);
    return entry === undefined ? undefined : toMatch(entry, state);
  };
  const matchOf = (entry: Entry<T>, state: Search<T>): Match<T> | RequestError =>
    entry.hasUnboundWildcard && decodePathVariable(state.path, false) === undefined
      ? new RequestError(400, "invalid_argument", "the path is not valid percent-encoded UTF-8")
      : { value: entry.route.value, pathVariables: entry.extract(state) };

  return {
    find(httpMethod, path) {
      const leaf = literalPaths.get(path);
      const entry = leaf === undefined ? undefined : entryFor(leaf, httpMethod);
      return entry?.literalMatch ?? search(path, (each) => entryFor(each, httpMethod), matchOf);
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
  return { literals: new Map(), wildcard: undefined, multiWildcard: undefined, leaves: new Map() };
}

/** Adds the nodes of a template to the trie, and returns the leaf of the last one. */
function insertTemplate<T>(root: Node<T>, { segments, verb }: Template): Leaf<T> {
  const multi = segments.findIndex(({ kind }) => kind === "**");
  const prefix = multi === -1 ? segments : segments.slice(0, multi);
  const suffix = multi === -1 ? [] : segments.slice(multi + 1).toReversed();
  let node = root;
  for (const segment of prefix) {
    node = insertSegment(node, segment);
  }
  if (multi !== -1) {
    node = node.multiWildcard ??= createNode();
  }
  for (const segment of suffix) {
    node = insertSegment(node, segment);
  }
  const decodedVerb = decodeURIComponent(verb);
  const leaf = node.leaves.get(decodedVerb) ?? new Map<string, Entry<T>>();
  node.leaves.set(decodedVerb, leaf);
  return leaf;
}

/** A literal, or "*". */
function insertSegment<T>(node: Node<T>, segment: Segment): Node<T> {
  if (segment.kind !== "literal") {
    return (node.wildcard ??= createNode());
  }
  const child = node.literals.get(segment.decoded) ?? createNode<T>();
  node.literals.set(segment.decoded, child);
  return child;
}

/**
 * Matches the segments of the path from index `from` against a subtree, with backtracking. Each node is visited at most
 * once, so the cost is bounded by the number of templates, not by the length of the path.
 */
function matchForward<T>(node: Node<T>, from: number, depth: number, search: Search<T>): Entry<T> | undefined {
  const { path, end, starts } = search;
  starts[depth] = from;
  // The path "/" has no segment, whereas "/a/" ends with an empty one.
  if (from > end || (depth === 0 && from === end)) {
    return acceptAt(node, search) ?? (node.multiWildcard && matchBackward(node.multiWildcard, end, from, search));
  }
  const slash = path.indexOf("/", from);
  const to = slash === -1 ? end : slash;
  // Only "**" matches an empty segment.
  if (to > from) {
    const literal = node.literals.size === 0 ? undefined : segmentOf(search, from, to);
    const child = literal === undefined ? undefined : node.literals.get(literal);
    const found =
      (child && matchForward(child, to + 1, depth + 1, search)) ??
      (node.wildcard && matchForward(node.wildcard, to + 1, depth + 1, search));
    if (found !== undefined) {
      return found;
    }
  }
  return node.multiWildcard && matchBackward(node.multiWildcard, end, from, search);
}

/** Matches the segments after "**" from the end of the path backwards, down to index `min`. */
function matchBackward<T>(node: Node<T>, to: number, min: number, search: Search<T>): Entry<T> | undefined {
  if ((node.literals.size > 0 || node.wildcard !== undefined) && to > min) {
    const from = search.path.lastIndexOf("/", to - 1) + 1;
    if (from >= min && from < to) {
      const literal = node.literals.size === 0 ? undefined : segmentOf(search, from, to);
      const child = literal === undefined ? undefined : node.literals.get(literal);
      const found =
        (child && matchBackward(child, from - 1, min, search)) ??
        (node.wildcard && matchBackward(node.wildcard, from - 1, min, search));
      if (found !== undefined) {
        return found;
      }
    }
  }
  return acceptAt(node, search);
}

/** The decoded segment; undefined if it can't be decoded, and so equals no literal. */
function segmentOf({ path, escaped }: Search<unknown>, from: number, to: number): string | undefined {
  const raw = path.slice(from, to);
  return escaped ? decodePathVariable(raw, false) : raw;
}

function acceptAt<T>(node: Node<T>, search: Search<T>): Entry<T> | undefined {
  const leaf = node.leaves.get(search.verb);
  return leaf && search.accept(leaf);
}

/** Compiles the extraction of variables from a path that the template matches. */
function createVariableExtractor({ segments, variables }: Template): ExtractVariables {
  const multi = segments.findIndex(({ kind }) => kind === "**");
  const fixed = multi === -1 ? segments.length : multi;
  const spans = variables.map(({ start, end }) => ({
    start,
    end,
    // Segments after "**" are counted from the end.
    startFromEnd: start > fixed ? segments.length - start : undefined,
    endFromEnd: end > fixed ? segments.length - end : undefined,
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

/** The index of the slash before the last `count` segments; `end` for 0. */
function slashBefore({ path, end }: Pick<Search<unknown>, "path" | "end">, count: number): number {
  let index = end;
  for (let remaining = count; remaining > 0; remaining--) {
    index = path.lastIndexOf("/", index - 1);
  }
  return index;
}

function textOf({ segments }: Template, start: number, end: number): string {
  return segments
    .slice(start, end)
    .map((segment) => (segment.kind === "literal" ? segment.text : segment.kind))
    .join("/");
}

function hasUnboundWildcard({ segments, variables }: Template): boolean {
  return segments.some(
    ({ kind }, index) => kind !== "literal" && !variables.some(({ start, end }) => start <= index && index < end),
  );
}
