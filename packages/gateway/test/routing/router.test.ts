import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RequestError } from "../../src/http/request-error.ts";
import { createRouter, type Router } from "../../src/routing/router.ts";
import { decodePathVariable } from "../../src/routing/percent.ts";
import { expandTemplate, formatTemplate, parseTemplate, type Template } from "../../src/routing/template.ts";
import { anyTemplate } from "../any-template.ts";
import { vectors } from "../vectors.ts";
import { propertyRuns } from "../property-runs.ts";

type RouteRow = readonly [id: string, httpMethod: string, template: string];

function matcherOf(...rows: readonly RouteRow[]): Router<{ id: string; template: Template }> {
  return createRouter(
    rows.map(([id, httpMethod, source]) => {
      const template = parseTemplate(source, { google: true });
      return { httpMethod, template, name: `rpc ${id}`, value: { id, template } };
    }),
  );
}

/** The matching route and the values of its variables; undefined for none. */
function look(
  router: ReturnType<typeof matcherOf>,
  method: string,
  path: string,
): { route: string; vars: Record<string, string | undefined> } | undefined {
  const match = router.find(method, path);
  if (match instanceof RequestError) {
    throw match;
  }
  return (
    match && {
      route: match.value.id,
      vars: Object.fromEntries(
        match.value.template.variables.map(({ fieldPath, multi }, index) => [
          fieldPath,
          decodePathVariable(match.pathVariables[index] ?? "", multi),
        ]),
      ),
    }
  );
}

type OnePath = {
  template: string;
  method: string;
  path: string;
  expect: { match: boolean; vars?: Record<string, string> };
};

test.each(vectors<OnePath>("path"))("matches %s", (_id, { template, method, path, expect: expected }) => {
  const found = look(matcherOf(["it", method, template]), method, path);
  expect(found).toEqual(expected.match ? { route: "it", vars: expected.vars } : undefined);
});

type Routes = {
  routes: RouteRow[];
  method: string;
  path: string;
  expect: { match: boolean; route?: string; vars?: Record<string, string>; allow?: string[] };
};

test.each(vectors<Routes>("route"))("routes %s, in any order", (_id, { routes, method, path, expect: expected }) => {
  for (const order of [routes, routes.toReversed()]) {
    const router = matcherOf(...order);
    expect(look(router, method, path)).toEqual(
      expected.match ? { route: expected.route, vars: expected.vars } : undefined,
    );
    const allowed = [...router.methodsOf(path)].toSorted();
    expect(allowed).toEqual(expected.allow ?? allowed);
  }
});

type Conflict = { routes: RouteRow[]; expect: { conflict: boolean } };

const conflicts = vectors<Conflict>("conflict");

test.each(
  conflicts.filter(
    ([
      ,
      {
        expect: { conflict },
      },
    ]) => conflict,
  ),
)("refuses %s", (_id, { routes }) => {
  expect(() => matcherOf(...routes)).toThrow(/ of rpc b matches the same requests as .* of rpc a$/);
});

test.each(
  conflicts.filter(
    ([
      ,
      {
        expect: { conflict },
      },
    ]) => !conflict,
  ),
)("takes %s", (_id, { routes }) => {
  expect(() => matcherOf(...routes)).not.toThrow();
});

test.each<[string, string]>([
  ["/v1/{a}", "/v1/{b=*}"],
  ["/v1/*", "/v1/{b}"],
  ["/{a=v1/*}/c", "/v1/{b}/c"],
  ["/a%2fb", "/a%2Fb"],
  ["/%61", "/a"],
  ["/{a=**}:go", "/**:go"],
  ["/a/**/b", "/{x=a/**}/b"],
])("rejects %s together with %s: they match the same requests", (first, second) => {
  expect(() => matcherOf(["a", "GET", first], ["b", "GET", second])).toThrow(
    new Error(`GET ${formatTemplate(parseTemplate(second))} of rpc b matches the same requests as ${first} of rpc a`),
  );
});

test.each<[string, string, string, string]>([
  ["GET", "/v1/{a}", "POST", "/v1/{b}"],
  ["GET", "/v1/a", "*", "/v1/a"],
  ["GET", "/v1/{a}", "GET", "/v1/{a=**}"],
  ["GET", "/v1/{a}", "GET", "/v1/{a}/b"],
  ["GET", "/v1/{a}", "GET", "/v1/{a}:go"],
  ["GET", "/a/**/b", "GET", "/a/**/c"],
])("accepts %s %s together with %s %s", (method, template, otherMethod, otherTemplate) => {
  expect(() => matcherOf(["a", method, template], ["b", otherMethod, otherTemplate])).not.toThrow();
});

describe("a verb", () => {
  const router = matcherOf(["cancel", "POST", "/v1/{name=**}:cancel"], ["get", "GET", "/v1/{name=**}"]);

  test.each([
    ["POST", "/v1/a/b:cancel", "cancel", "a/b"],
    ["POST", "/v1/a:b:cancel", "cancel", "a:b"],
    ["POST", "/v1:cancel", "cancel", ""],
    ["GET", "/v1/a:other", "get", "a:other"],
    ["GET", "/v1/a%3Acancel", "get", "a:cancel"],
    ["GET", "/v1/a:cancel/b", "get", "a:cancel/b"],
    // No other route has the method, so the colon is data.
    ["GET", "/v1/a:cancel", "get", "a:cancel"],
    ["GET", "/v1/a:", "get", "a:"],
  ])("is distinguished from data in %s %s", (method, path, route, name) => {
    expect(look(router, method, path)).toEqual({ route, vars: { name } });
  });

  test("does not leave an empty segment to a wildcard", () => {
    const router = matcherOf(["verb", "GET", "/v1/{a}:go"], ["data", "GET", "/v1/{a}"]);
    expect(look(router, "GET", "/v1/:go")).toEqual({ route: "data", vars: { a: ":go" } });
  });
});

describe("methods", () => {
  test("a literal route without the method does not hide the variable route that has it", () => {
    const router = matcherOf(["get", "GET", "/v1/x"], ["post", "POST", "/v1/{a}"], ["put", "PUT", "/{a=**}"]);
    expect(look(router, "POST", "/v1/x")?.route).toBe("post");
    expect(look(router, "PUT", "/v1/x")?.route).toBe("put");
    expect(look(router, "PATCH", "/v1/x")).toBeUndefined();
    expect([...router.methodsOf("/v1/x")].toSorted()).toEqual(["GET", "POST", "PUT"]);
  });

  test("HEAD matches its own route, else that of GET, else that of any method", () => {
    const get = ["get", "GET", "/a"] as const;
    const all = ["all", "*", "/a"] as const;
    expect(look(matcherOf(get, all), "HEAD", "/a")?.route).toBe("get");
    expect(look(matcherOf(get, all, ["head", "HEAD", "/a"]), "HEAD", "/a")?.route).toBe("head");
    expect(look(matcherOf(all), "HEAD", "/a")?.route).toBe("all");
  });

  test("a more literal template for any method takes precedence over a variable one for the method", () => {
    expect(look(matcherOf(["get", "GET", "/{a}"], ["all", "*", "/x"]), "GET", "/x")?.route).toBe("all");
  });

  test("methodsOf includes routes with the verb, and those for which it is data", () => {
    const router = matcherOf(["verb", "POST", "/a/{x}:go"], ["data", "GET", "/a/{x}"], ["other", "PUT", "/a/{x}:no"]);
    expect([...router.methodsOf("/a/b:go")].toSorted()).toEqual(["GET", "POST"]);
  });
});

test.each(["/a/", "//a", "/a//b", "/a/b/", "a", "", "/A", "/a/b?x=1"])("the whole path must match: not %j", (path) => {
  const router = matcherOf(["one", "GET", "/a"], ["two", "GET", "/a/b"]);
  expect([look(router, "GET", path), router.methodsOf(path).size]).toEqual([undefined, 0]);
});

test.each([
  ["/a/{x}", "/a/"],
  ["/{x}/b", "//b"],
  ["/{x}", "/"],
  ["/a/{x=**/b}", "/a/b/"],
])("%s does not match %s", (template, path) => {
  expect(look(matcherOf(["it", "GET", template]), "GET", path)).toBeUndefined();
});

test.each([
  ["/{x=a/**}/b/{y=c}", "/a/b/c", "a", "c"],
  ["/{x=a/**/z}/b/{y=c/d}", "/a//z/z/b/c/d", "a//z/z", "c/d"],
  ["/{x=**}/{y=z}", "/z", "", "z"],
  ["/{x=**}/{y=z}", "//z", "", "z"],
  ["/{x=**}/{y=z}:go", "/a/b/z:go", "a/b", "z"],
  ["/a/{x=*/**}/{y=z}", "/a/b/c/z", "b/c", "z"],
])("%s matches as many segments of %s as possible", (template, path, x, y) => {
  expect(look(matcherOf(["it", "GET", template]), "GET", path)?.vars).toEqual({ x, y });
});

test("a variable of literals only has their text, also if another route has an equal path", () => {
  const router = matcherOf(
    ["get", "GET", "/{x=a/b%20c}/{y=d}"],
    ["post", "POST", "/a/b%20c/d"],
    ["go", "GET", "/{x=a}:go"],
  );
  for (const path of ["/a/b%20c/d", "/%61/b%20c/d"]) {
    expect(look(router, "GET", path)).toEqual({ route: "get", vars: { x: "a/b c", y: "d" } });
    expect(look(router, "POST", path)).toEqual({ route: "post", vars: {} });
  }
  expect(look(router, "GET", "/a:go")).toEqual({ route: "go", vars: { x: "a" } });
  expect(look(router, "GET", "/{x=a}:go")).toBeUndefined();
});

test("after ** the longer suffix takes precedence", () => {
  const router = matcherOf(["any", "GET", "/**"], ["c", "GET", "/**/c"], ["bc", "GET", "/**/b/c"]);
  expect(["/a/b/c", "/b/c", "/a/c", "/c", "/a", "/"].map((path) => look(router, "GET", path)?.route)).toEqual([
    "bc",
    "bc",
    "c",
    "c",
    "any",
    "any",
  ]);
});

test("the root is a separate path", () => {
  const router = matcherOf(["root", "GET", "/"], ["all", "POST", "/**"]);
  expect(look(router, "GET", "/")?.route).toBe("root");
  expect(look(router, "POST", "/")?.route).toBe("all");
  expect([...router.methodsOf("/")].toSorted()).toEqual(["GET", "POST"]);
  expect(look(router, "GET", "//")).toBeUndefined();
});

test("text outside of variables must be encoded correctly too", () => {
  const router = matcherOf(["free", "GET", "/a/*"], ["rest", "GET", "/b/**"]);
  const error = new RequestError(400, "invalid_argument", "the path is not valid percent-encoded UTF-8");
  expect(router.find("GET", "/a/%zz")).toEqual(error);
  expect(router.find("GET", "/b/c/%ff")).toEqual(error);
  expect(look(router, "GET", "/a/%20")?.route).toBe("free");
  expect(router.find("GET", "/%zz/a")).toBeUndefined();
});

describe("any templates", () => {
  /** A straightforward implementation of Router's documentation. */
  const rankOf = ({ segments, verb }: Template): string => {
    const rest = segments.findIndex(({ kind }) => kind === "**");
    const kinds = { literal: 1, "*": 2, "**": 3 };
    const behind = rest === -1 ? 0 : segments.length - rest;
    const before = segments.slice(0, rest === -1 ? undefined : rest + 1).map(({ kind }) => kinds[kind]);
    return `${verb === "" ? 1 : 0}${before.join("")}0${100 - behind}`;
  };
  const patternOf = ({ segments, verb }: Template): RegExp => {
    const parts = segments.map((segment) =>
      segment.kind === "literal" ? `/${segment.text}` : segment.kind === "*" ? "/[^/]+" : "(?:/.*)?",
    );
    return new RegExp(`^${parts.join("")}${verb === "" ? "" : `:${verb}`}$`);
  };
  const template = fc
    .record({
      before: fc.array(fc.constantFrom("a", "b", "*"), { minLength: 1, maxLength: 4 }),
      behind: fc.option(fc.array(fc.constantFrom("a", "b"), { maxLength: 2 })),
      verb: fc.constantFrom("", "", ":a", ":b"),
    })
    .map(({ before, behind, verb }) =>
      parseTemplate(`/${[...before, ...(behind === null ? [] : ["**", ...behind])].join("/")}${verb}`),
    );
  const path = fc
    .array(fc.constantFrom("a", "b", "c", "", "a:a", "b:b"), { minLength: 1, maxLength: 6 })
    .map((segments) => `/${segments.join("/")}`);

  test("the result matches, and has the highest precedence of all matches", () => {
    fc.assert(
      fc.property(fc.uniqueArray(template, { selector: formatTemplate, maxLength: 12 }), path, (templates, path) => {
        const router = createRouter(
          templates.map((each) => ({ httpMethod: "GET", template: each, name: "", value: each })),
        );
        const expected = templates
          .filter((each) => patternOf(each).test(path))
          .toSorted((one, other) => (rankOf(one) < rankOf(other) ? -1 : 1))[0];
        const match = router.find("GET", path);
        expect(match instanceof RequestError ? match : match?.value).toBe(expected);
        expect(router.methodsOf(path).size).toBe(expected === undefined ? 0 : 1);
      }),
      propertyRuns(2000),
    );
  });

  test("the values that a path is expanded from are found in it", () => {
    const value = fc.string({
      unit: fc.constantFrom("a", "/", ":", "%", "2F", " ", "世", "+", ".", "b"),
      minLength: 1,
    });
    fc.assert(
      fc.property(anyTemplate(), fc.array(value, { minLength: 9, maxLength: 9 }), (template, values) => {
        const vars: Record<string, string> = {};
        template.variables.forEach(({ fieldPath, start, end, multi }, index) => {
          vars[fieldPath] = template.segments
            .slice(start, end)
            .map((segment) => {
              const text = values[index] ?? "";
              return segment.kind === "literal"
                ? (decodePathVariable(encodeURI(segment.text).replaceAll("%25", "%"), multi) ?? "")
                : segment.kind === "*" && multi
                  ? `x${text.replaceAll("/", "")}`
                  : text;
            })
            .join("/");
        });
        const free = template.segments.some(
          ({ kind }, index) =>
            kind !== "literal" && !template.variables.some(({ start, end }) => start <= index && index < end),
        );
        fc.pre(!free);
        const router = matcherOf(["it", "GET", formatTemplate(template)]);
        const path = encodeURI(expandTemplate(template, vars)).replaceAll("%25", "%");
        expect(look(router, "GET", path)?.vars).toEqual(vars);
      }),
    );
  });
});

describe("a wildcard behind **", () => {
  const router = matcherOf(
    ["list", "GET", "/v1/{parent=documents/**}/{collection}"],
    ["create", "POST", "/v1/{parent=documents/**}/{collection}"],
    ["get", "GET", "/v1/{name=documents/**}"],
    ["query", "GET", "/v1/{parent=documents/**}/special"],
    ["session", "GET", "/v1/{name=**/botSessions/*}"],
  );
  test.each<[string, object | undefined]>([
    ["/v1/documents/a", { route: "list", vars: { parent: "documents", collection: "a" } }],
    ["/v1/documents/a/b%2Fc/d%2Fe", { route: "list", vars: { parent: "documents/a/b%2Fc", collection: "d/e" } }],
    ["/v1/documents/a/special", { route: "query", vars: { parent: "documents/a" } }],
    ["/v1/documents", { route: "get", vars: { name: "documents" } }],
    ["/v1/documents/a/", { route: "get", vars: { name: "documents/a/" } }],
    ["/v1/botSessions/x", { route: "session", vars: { name: "botSessions/x" } }],
    ["/v1/a/b/botSessions/x", { route: "session", vars: { name: "a/b/botSessions/x" } }],
    ["/v1/a/botSessions", undefined],
    ["/v1/a/botSessions/", undefined],
  ])("%s", (path, expected) => {
    expect(look(router, "GET", path)).toEqual(expected);
  });
});

// No time is asserted: exponential backtracking would exceed the time limit of the test.
describe("terminates", () => {
  test("for 64,000 segments, or a segment of that length", () => {
    const router = matcherOf(
      ["1", "GET", "/**/x"],
      ["2", "GET", "/a/**/x/y"],
      ["3", "GET", "/a/*/**/x/y/z"],
      ["4", "GET", "/{v=a/a/**}:go"],
      ["5", "GET", "/a/a/a/{b}/**"],
    );
    const paths = ["/", "/a", ":", "/a:go", "%", "/%41", "/%2f", "//x/y"].map((part) => `/a${part.repeat(64_000)}`);
    for (const path of paths) {
      const found = router.find("GET", path);
      const isFound = found !== undefined && !(found instanceof RequestError);
      expect(router.methodsOf(path).has("GET")).toBe(isFound);
    }
  });

  test("where every segment could be a literal or a wildcard", () => {
    const templates = Array.from({ length: 1024 }, (_, bits) =>
      Array.from({ length: 10 }, (_, place) => ((bits >> place) % 2 === 1 ? "a" : "*")),
    );
    const router = matcherOf(...templates.map((each, id) => [`${id}`, "GET", `/${each.join("/")}/end`] as const));
    // Nothing matches, so the whole trie of 2,047 nodes is visited.
    expect(look(router, "GET", `/${"a/".repeat(10)}no`)).toBeUndefined();
  });
});
