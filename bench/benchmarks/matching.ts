import { ThingsService } from "../../packages/gateway/test/gen/gatewaytest/v1/things_pb.ts";
import { createGateway, type Rule } from "@flowgate/gateway";
import type { Benchmark, Effort, Result } from "../benchmark.ts";
import { formatSpread, median } from "../statistics.ts";
import { handle } from "./handle.ts";

const calls = 20_000;
const warmUps = 3;

/** Templates with a matching path. */
const kinds: Readonly<Record<string, (id: number) => readonly [template: string, path: string]>> = {
  "a literal path": (id) => [`/v1/things${id}/all`, `/v1/things${id}/all`],
  "one variable": (id) => [`/v1/things${id}/{thing.text}`, `/v1/things${id}/some-name`],
  "two variables and a verb": (id) => [
    `/v1/things${id}/{thing.text}/parts/{thing.maybe}:go`,
    `/v1/things${id}/a1/parts/b2:go`,
  ],
  "all segments of a path": (id) => [`/v1/{thing.text=things${id}/**}`, `/v1/things${id}/a/b/c/d`],
};

export const matching: Benchmark = {
  name: "matching",
  title: "The gateway alone: a call among 1,000 routes beside one among 10, of several kinds of templates",
  async run({ starts, rounds }: Effort): Promise<Result> {
    const results = [];
    for (const [name, pick] of Object.entries(kinds)) {
      const few = callsAmong(10, pick);
      const many = callsAmong(1000, pick);
      const pairs: { few: number; many: number }[] = [];
      for (let round = -warmUps; round < starts * rounds; round++) {
        const pair = { few: await few(), many: await many() };
        if (round >= 0) {
          pairs.push(pair);
        }
      }
      results.push({ name, pairs, ratios: pairs.map(({ few, many }) => many / few) });
    }
    const worst = results.toSorted((one, other) => median(other.ratios) - median(one.ratios))[0];
    return {
      figures: [
        {
          title: "a call among 1,000 routes, of one among 10; the worst kind of template",
          unit: "x",
          values: worst?.ratios ?? [],
          goal: { kind: "atMost", value: 1.5 },
        },
      ],
      rows: results.map(({ name, pairs, ratios }) => ({
        "": name,
        "µs among 10": median(pairs.map(({ few }) => few)).toFixed(2),
        "µs among 1,000": median(pairs.map(({ many }) => many)).toFixed(2),
        ratio: formatSpread(ratios),
      })),
      chart: [
        { title: "ratio of the times", bars: results.map(({ name, ratios }) => ({ label: name, values: ratios })) },
      ],
    };
  },
};

/** Returns a function that measures one round and resolves with the time per call in µs. */
function callsAmong(
  routes: number,
  pick: (id: number) => readonly [template: string, path: string],
): () => Promise<number> {
  const [first, ...others] = Array.from({ length: routes }, (_, id) => ({
    pattern: { case: "get" as const, value: pick(id)[0] },
  }));
  const unserved = ["OpenThing", "GetHeaders", "SendForm"].map((name) => ({
    selector: `${ThingsService.typeName}.${name}`,
  }));
  const rules: Rule[] = [
    ...unserved,
    { selector: `${ThingsService.typeName}.EchoThing`, ...first, additionalBindings: others },
  ];
  const gateway = createGateway({
    rules,
    routes: (router) => router.service(ThingsService, { echoThing: () => ({}) }),
  });
  // The same ten paths for few and for many routes, so that processor caches have the same effect.
  const targets = Array.from({ length: 10 }, (_, id) => Buffer.from(pick(id)[1]));
  return async () => {
    const startMs = performance.now();
    for (let call = 0; call < calls; call++) {
      // A new string for each call, as in a server.
      await handle(gateway, { target: (targets[call % 10] ?? Buffer.alloc(0)).toString("latin1") });
    }
    return ((performance.now() - startMs) / calls) * 1000;
  };
}
