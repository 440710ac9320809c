import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Row } from "./benchmark.ts";

type Profile = {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
};

type Cost = { selfUs: number; totalUs: number };

const idle = new Set(["(idle)", "(root)", "(program)"]);

/** Returns the functions with the largest self time, and the functions of src/ with the largest total time. */
export async function summarizeProfiles(dir: string, count: number): Promise<{ self: Row[]; total: Row[] }> {
  const files = (await readdir(dir)).filter((name) => name.endsWith(".cpuprofile"));
  const costs = new Map<string, Cost>();
  let busyUs = 0;
  for (const file of files) {
    busyUs += addCosts(costs, JSON.parse(await readFile(join(dir, file), "utf8")) as Profile);
  }
  const rows = (by: keyof Cost, isShown: (place: string) => boolean): Row[] =>
    [...costs]
      .filter(([place]) => isShown(place))
      .toSorted(([, one], [, other]) => other[by] - one[by])
      .slice(0, count)
      .map(([place, cost]) => ({
        "share of busy time": `${((cost[by] / busyUs) * 100).toFixed(1)} %`,
        ms: (cost[by] / 1000).toFixed(0),
        [by === "selfUs" ? "self time" : "total time"]: place,
      }));
  return { self: rows("selfUs", () => true), total: rows("totalUs", (place) => place.includes(" src/")) };
}

/** Adds the costs of a profile, and returns the time during which the process was not idle. */
function addCosts(costs: Map<string, Cost>, { nodes, samples, timeDeltas }: Profile): number {
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id] as const)));
  let busyUs = 0;
  for (const [at, id] of samples.entries()) {
    const us = timeDeltas[at] ?? 0;
    const own = places.get(id) ?? "";
    if (idle.has(own)) {
      continue;
    }
    busyUs += us;
    costOf(costs, own).selfUs += us;
    const stack = new Set<string>();
    for (let node: number | undefined = id; node !== undefined; node = parents.get(node)) {
      stack.add(places.get(node) ?? "");
    }
    for (const place of stack) {
      costOf(costs, place).totalUs += us;
    }
  }
  return busyUs;
}

function costOf(costs: Map<string, Cost>, place: string): Cost {
  const cost = costs.get(place) ?? { selfUs: 0, totalUs: 0 };
  costs.set(place, cost);
  return cost;
}

function placeOf({ functionName, url, lineNumber }: Profile["nodes"][number]["callFrame"]): string {
  const name = functionName === "" ? "(anonymous)" : functionName;
  const file = url.replace(/^file:\/\/.*?\/(?=(?:node_modules|src|gen|bench)\/)/, "");
  return file === "" ? name : `${name} ${file}:${lineNumber + 1}`;
}
