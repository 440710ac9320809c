import { createMatcher } from "../src/transcoding/matcher.ts";
import { parseTemplate } from "../src/transcoding/template.ts";
import type { Benchmark } from "./benchmark.ts";
import { median } from "./statistics.ts";

const SEARCHES = 200_000;

const kinds = {
  "a literal path": (id: number) => [`/v1/things${id}/all`, `/v1/things${id}/all`],
  "one variable": (id: number) => [`/v1/things${id}/{name}`, `/v1/things${id}/some-name`],
  "two variables and a verb": (id: number) => [`/v1/things${id}/{a}/parts/{b}:go`, `/v1/things${id}/a1/parts/b2:go`],
  "all segments of a path": (id: number) => [`/v1/{name=things${id}/**}`, `/v1/things${id}/a/b/c/d`],
} as const;

export const matching: Benchmark = {
  name: "transcoded-matching",
  title: "finding a route among 1,000, beside finding it among 10; of several kinds of templates the worst",
  goal: { kind: "atMost", value: 1.5, unit: "x" },
  async run({ starts, rounds }) {
    const results = Object.entries(kinds).map(([name, pick]) => {
      const few = measure(10, pick);
      const many = measure(1000, pick);
      const warm = 3;
      const pairs = Array.from({ length: warm + starts * rounds }, () => [few(), many()] as const).slice(warm);
      return {
        name,
        few: median(pairs.map(([each]) => each)),
        many: median(pairs.map(([, each]) => each)),
        ratio: median(pairs.map(([one, other]) => other / one)),
      };
    });
    return {
      value: Math.max(...results.map(({ ratio }) => ratio)),
      rows: results.map(({ name, few, many, ratio }) => ({
        "": name,
        "ns among 10": few.toFixed(0),
        "ns among 1,000": many.toFixed(0),
        ratio: ratio.toFixed(2),
      })),
    };
  },
};

/** Compiles so many routes; what it gives measures one round, in ns a search. */
function measure(routes: number, pick: (id: number) => readonly string[]): () => number {
  const ids = Array.from({ length: routes }, (_, id) => id);
  const templates = ids.map((id) => pick(id)[0] ?? "");
  const matcher = createMatcher(
    templates.map((template) => ({ httpMethod: "GET", template: parseTemplate(template), name: "", value: template })),
  );
  // The same ten are asked for among few and among many, so that caches of the processor make no difference; each is
  // a new string, as a request's is.
  const paths = ids.slice(0, 10).map((id) => Buffer.from(pick(id)[1] ?? ""));
  return () => {
    let found = 0;
    const targets = Array.from(
      { length: SEARCHES },
      (_, index) => (paths[index % 10] ?? paths[0])?.toString("latin1") ?? "",
    );
    const begun = process.hrtime.bigint();
    for (const target of targets) {
      found += matcher.find("GET", target) === undefined ? 0 : 1;
    }
    const spent = Number(process.hrtime.bigint() - begun);
    if (found !== SEARCHES) {
      throw new Error("some path was not found");
    }
    return spent / SEARCHES;
  };
}
