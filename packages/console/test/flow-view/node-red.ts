import { globSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { runInNewContext } from "node:vm";

const require = createRequire(import.meta.url);
const nodesFolder = dirname(require.resolve("@node-red/nodes/package.json"));

/** What Node-RED's editor knows of a type. */
export type Definition = {
  readonly category: string;
  readonly color?: string;
  readonly inputs?: number;
  readonly outputs?: number;
  readonly align?: string;
  readonly icon?: string | ((this: unknown) => string);
  readonly label?: string | ((this: unknown, props?: unknown) => string);
  readonly labelStyle?: (this: unknown) => string;
  readonly button?: object;
  readonly defaults?: Readonly<Record<string, unknown>>;
};

type RawNode = Readonly<Record<string, unknown>> & { readonly id: string; readonly type: string };

/** The definitions of Node-RED's own nodes, from the code that the editor runs. */
export function loadDefinitions(): ReadonlyMap<string, Definition> {
  const definitions = new Map<string, Definition>();
  const messages: unknown = JSON.parse(readFileSync(join(nodesFolder, "locales/en-US/messages.json"), "utf8"));
  const translate = (key: string, values: Readonly<Record<string, unknown>> = {}): string =>
    String(
      key.split(".").reduce((part: unknown, name) => (part as Record<string, unknown>)[name], messages),
    ).replaceAll(/__(\w+)__/g, (_, name: string) => String(values[name]));
  const anything: unknown = new Proxy(() => undefined, { get: () => anything, apply: () => anything });
  const RED = {
    _: (key: string) => key,
    nodes: {
      registerType: (type: string, definition: Definition) => {
        definitions.set(type, Object.assign(definition, { _: translate }));
      },
    },
    utils: {
      parseContextKey: (key: string) => ({ key: /^#:\(.+\)::(.*)$/.exec(key)?.[1] ?? key }),
      parseModuleList: anything,
    },
    settings: { httpNodeRoot: "/", get: (_name: string, otherwise: unknown) => otherwise },
    validators: anything,
    events: anything,
    editor: anything,
  };
  for (const file of globSync("core/**/*.html", { cwd: nodesFolder })) {
    const html = readFileSync(join(nodesFolder, file), "utf8");
    for (const [, code = ""] of html.matchAll(/<script type="text\/javascript">(.*?)<\/script>/gs)) {
      runInNewContext(code, { RED, $: anything, window: {}, document: anything });
    }
  }
  return definitions;
}

/** The flows of Node-RED's examples, by the name of the example. */
export function loadExamples(): readonly (readonly [name: string, flows: readonly RawNode[]])[] {
  return globSync("examples/**/*.json", { cwd: nodesFolder })
    .toSorted()
    .map((file) => [file, JSON.parse(readFileSync(join(nodesFolder, file), "utf8")) as RawNode[]]);
}

/** Node-RED's own function that makes the path of a wire, as the `d` of an SVG path. */
export function loadWirePath(): (x1: number, y1: number, x2: number, y2: number) => string {
  const file = require.resolve("@node-red/editor-client/public/red/red.js");
  const [code] = /function generateLinkPath\(.*?\n    }\n/s.exec(readFileSync(file, "utf8")) ?? [];
  return runInNewContext(
    `const lineCurveScale = 0.75, node_width = 100, node_height = 30; ${code}; (...ends) => generateLinkPath(...ends, 1)`,
  ) as ReturnType<typeof loadWirePath>;
}

/** A type of Node-RED's editor sees the properties of its node, and texts in the language of the user. */
export function evaluate<T>(definition: Definition, node: RawNode, value: T | ((this: unknown) => T)): T {
  if (typeof value !== "function") {
    return value;
  }
  const editorNode = Object.assign(Object.create(definition), node) as unknown;
  return (value as (this: unknown) => T).call(editorNode);
}
