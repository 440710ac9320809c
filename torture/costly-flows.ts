import type { Node } from "../test/e2e/flow-builders.ts";

/** Creates flows of about this size. The parts that they do not determine are random. */
type Make = (bytes: number, random: () => number) => Node[];

const upTo = (max: number, random: () => number): number => 1 + Math.floor(Math.max(1, max) * random());
const times = <T>(count: number, make: (at: number) => T): T[] =>
  Array.from({ length: Math.max(1, Math.floor(count)) }, (_, at) => make(at));
const pickFrom = <T>(values: readonly T[], random: () => number): T =>
  values[Math.floor(values.length * random())] as T;
const tabs = (count: number): Node[] => times(count, (at) => ({ id: `t${at}`, type: "tab" }));
const subflow = (at: number): Node => ({ id: `s${at}`, type: "subflow", in: [], out: [] });
const instance = (of: number, z: string, id: string): Node => ({ id, type: `subflow:s${of}`, z, wires: [[]] });
const configNode = (id: string, properties: object): Node => ({ id, type: "mqtt-broker", ...properties });
const lines = (count: number, random: () => number): string =>
  times(count, () => pickFrom(["{", "}", "return msg;", "", "a();", `b(${Math.floor(9 * random())});`], random)).join(
    "\n",
  );

/** Subflows, each of which contains so many instances of the next one. */
const nested = (depth: number, width: number): Node[] =>
  times(depth, (at) => [
    subflow(at),
    ...(at + 1 < depth ? times(width, (each) => instance(at + 1, `s${at}`, `i${at}-${each}`)) : []),
    { id: `n${at}`, type: "debug", z: `s${at}`, wires: [] },
  ]).flat();

/** Flows whose plan, comparison or merge costs more than their size suggests. */
export const costlyShapes: Readonly<Record<string, Make>> = {
  "nested subflows": (bytes, random) => {
    const depth = upTo(bytes / 250, random);
    return [...tabs(1), ...nested(depth, 1), ...times(bytes / 100 - depth, (at) => instance(0, "t0", `r${at}`))];
  },
  "subflows that multiply": (bytes, random) => {
    const width = upTo(20, random);
    return [...tabs(1), ...nested(bytes / (120 + 60 * width), width), instance(0, "t0", "r")];
  },
  "configurations in a circle": (bytes, random) => {
    const count = upTo(20, random);
    const keys = bytes / (24 * count);
    const circle = times(count, (at) =>
      configNode(`c${at}`, Object.fromEntries(times(keys, (key) => [`k${key}`, `c${(at + 1 + (key % 3)) % count}`]))),
    );
    return [...tabs(upTo(200, random)), ...circle, configNode("user", { broker: "c0", z: "t0" })];
  },
  "configurations in a circle of a subflow": (bytes, random) => {
    const keys = bytes / 80;
    const circle = times(3, (at) =>
      configNode(`c${at}`, { z: "s0", ...Object.fromEntries(times(keys, (key) => [`k${key}`, `c${(at + 1) % 3}`])) }),
    );
    const all = tabs(upTo(300, random));
    return [...all, subflow(0), ...circle, ...all.map(({ id }) => instance(0, id, `i-${id}`))];
  },
  "a chain of configurations": (bytes) => times(bytes / 60, (at) => configNode(`c${at}`, { next: `c${at + 1}` })),
  "long names of modules": (bytes, random) => {
    const text = pickFrom(["@", "@/", "a@", "a/", "/", ".", "node:", " ", "@a/@", "-", "\\"], random);
    const module = text.repeat(bytes / text.length);
    return [...tabs(1), { id: "f", type: "function", z: "t0", func: "", libs: [{ var: "a", module }], wires: [] }];
  },
  "many modules": (bytes) => [
    ...tabs(1),
    { id: "f", type: "function", z: "t0", libs: times(bytes / 40, (at) => ({ var: `v${at}`, module: `m${at}@1` })) },
  ],
  "wires to everything": (bytes, random) => {
    const count = Math.sqrt(bytes / 8);
    const targets = times(count, (at) => `n${at}`);
    const outputs = upTo(3, random);
    return [
      ...tabs(1),
      ...targets.map((id) => ({ id, type: "debug", z: "t0", wires: times(outputs, () => targets) })),
    ].slice(0, 1 + count / outputs);
  },
  "links to everything": (bytes, random) => {
    const count = Math.sqrt(bytes / 8);
    const ids = times(count, (at) => `l${at}`);
    return [
      ...tabs(2),
      ...ids.map((id, at) => ({
        id,
        type: `link ${at % 2 === 0 ? "in" : "out"}`,
        z: `t${upTo(2, random) - 1}`,
        links: ids,
      })),
    ];
  },
  "nested groups": (bytes) => [
    ...tabs(1),
    ...times(bytes / 80, (at) => ({
      id: `g${at}`,
      type: "group",
      z: "t0",
      nodes: [],
      ...(at > 0 && { g: `g${at - 1}` }),
    })),
  ],
  "long texts": (bytes, random) => [
    ...tabs(1),
    { id: "f", type: "function", z: "t0", func: lines(bytes / 5, random), wires: [[]] },
  ],
  "many texts": (bytes, random) => [
    ...tabs(1),
    ...times(bytes / 2_000, (at) => ({ id: `f${at}`, type: "function", z: "t0", func: lines(380, random) })),
  ],
  "one long line": (bytes, random) => [
    { id: "f", type: "function", func: pickFrom(["a", "ab", " "], random).repeat(bytes / 2) },
  ],
  "many keys": (bytes, random) => [
    configNode("c", Object.fromEntries(times(bytes / 14, (at) => [`k${at}`, Math.floor(9 * random())]))),
  ],
  "deep values": (bytes, random) =>
    times(bytes / 250, (at) =>
      configNode(`c${at}`, { x: JSON.parse(`${'{"a":['.repeat(14)}${Math.floor(9 * random())}${"]}".repeat(14)}`) }),
    ),
  "a long list": (bytes, random) => [
    configNode("c", {
      list: times(bytes / 20, (at) => ({ id: `e${at}`, v: Math.floor(9 * random()) })).toSorted(() => random() - 0.5),
    }),
  ],
  "long ids": (bytes, random) => {
    const prefix = "x".repeat(upTo(Math.min(bytes / 4, 20_000), random));
    return [
      ...tabs(1),
      ...times(bytes / prefix.length / 2, (at) => ({
        id: `${prefix}${at}`,
        type: "debug",
        z: "t0",
        wires: [[`${prefix}${at + 1}`]],
      })),
    ];
  },
  "another order": (bytes, random) =>
    times(bytes / 30, (at) => ({ id: `n${at}`, type: "debug" })).toSorted(() => random() - 0.5),
  "many tabs and types": (bytes, random) =>
    times(bytes / 90, (at) => [
      { id: `t${at}`, type: "tab", disabled: random() < 0.5 },
      { id: `n${at}`, type: `type-${at}`, z: `t${upTo(bytes / 90, random)}`, wires: [] },
    ]).flat(),
  "properties of subflows": (bytes) => [
    ...tabs(1),
    { ...subflow(0), env: times(bytes / 100, (at) => ({ name: `e${at}`, type: "str", value: "${e0}" })) },
    ...times(bytes / 200, (at) => ({
      ...instance(0, "t0", `i${at}`),
      env: [{ name: "e0", type: "str", value: `${at}` }],
    })),
  ],
};
