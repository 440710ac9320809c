import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { JsonValue } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checkFlows } from "../../src/flow-files/check-flows.ts";
import { exportFile, type FileFormat } from "../../src/flow-files/write-file.ts";
import { exportFolder } from "../../src/flow-files/export-folder.ts";
import { readFlowFiles } from "../../src/flow-files/read-files.ts";
import { type FlowNode, parseFlows } from "@flowgate/flows";
import { diffFlows } from "@flowgate/flows/compare";
import { codePoint } from "../../../gateway/test/code-point.ts";

const noStdin = () => Promise.reject(new Error("stdin is not used"));

async function read(path: string): Promise<readonly FlowNode[]> {
  return parseFlows(checkFlows(await readFlowFiles([path], noStdin)).flows).flows;
}

const formats: readonly FileFormat[] = ["yaml", "json"];

/** Text that a YAML parser or a text file may change. */
const odd = fc.constantFrom(
  "",
  " ",
  "yes",
  "No",
  "on",
  "y",
  "null",
  "~",
  "true",
  "1e3",
  "0x1f",
  "0o17",
  "012",
  "1_000",
  "12:30",
  ".5",
  ".inf",
  "-.NaN",
  "2026-11-22",
  "2026-11-22T10:00:00Z",
  "<<",
  "=",
  "a: b",
  "a #b",
  "- a",
  "-",
  "? a",
  "&a",
  "*a",
  "!a",
  "%a",
  "@a",
  "`a",
  "'a'",
  '"a"',
  "[a]",
  "{a}",
  "---",
  "...",
  "# a",
  "\t",
  "\ta",
  "a\t",
  " a",
  "a ",
  "a\nb",
  "a\n",
  "a\n\n",
  "\n",
  "\n\n",
  "\na",
  " a\nb",
  "a\n  b\n",
  "a\n ",
  "a \nb",
  "a\n\t\nb",
  "\t\na",
  "a\r\nb\r\n",
  "a\rb",
  "---\na",
  "...\na",
  "a\n---\n",
  "a\n...\n",
  "# a\nb",
  "\u0000",
  "\u0007",
  "\u001b[0m",
  "\u007f",
  "\u0085",
  "a\u0085b\nc",
  "a\u2028b",
  "a\u2029\nb",
  "\ufeff",
  "\ufeffa\n\ufeff",
  "\ufffe\n",
  "\\",
  String.raw`\n`,
  "Ünïcödé",
  "キッチン",
  "😀\n😀",
  "x".repeat(2000),
  `${"word ".repeat(50)}\n${"word ".repeat(50)}`,
  "constructor",
);

const text = fc.oneof(
  odd,
  fc.string({ unit: codePoint, maxLength: 12 }),
  fc.array(odd, { maxLength: 4 }).map((all) => all.join("\n")),
);
/** Without the backslash as a key: after it, JSON.parse of Node.js 26 reads it in place of other keys that are one escaped character. */
const forbiddenKeys = ["__proto__", "hasOwnProperty", "toString", "\\"];
const key = fc.oneof(text, fc.integer({ min: 0, max: 99 }).map(String)).filter((each) => !forbiddenKeys.includes(each));
const number = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(-0, 1e21, 1e-7, 2 ** 53, 2 ** 64, 1e100, Number.MIN_VALUE, Number.MAX_VALUE),
);

const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.oneof(text, number, fc.boolean(), fc.constant(null)),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(key, tie("value"), { maxKeys: 3, noNullPrototype: true }),
  ),
}));

const fixedNames = [
  "id",
  "type",
  "z",
  "g",
  "x",
  "y",
  "wires",
  "env",
  "links",
  "label",
  "credentials",
  "__proto__",
  "hasOwnProperty",
];
const properties = fc.dictionary(
  fc
    .oneof(key, fc.constantFrom("name", "info", "func", "d", "disabled", "w", "h"))
    .filter((name) => !fixedNames.includes(name)),
  value,
  { maxKeys: 4, noNullPrototype: true },
);

const label = fc.oneof(
  fc.constantFrom("Heating", "heating", "HEATING", "../x", "/etc/passwd", "global", "con", "a/b\\c", "キッチン"),
  text,
);

type Draft = {
  readonly id: string;
  readonly kind: number;
  readonly place: number;
  readonly label: string;
  readonly properties: { [name: string]: JsonValue };
  readonly wires: readonly (readonly string[])[];
};

const draft: fc.Arbitrary<Draft> = fc.record({
  id: fc.oneof(
    { weight: 3, arbitrary: fc.stringMatching(/^[0-9a-f]{16}$/) },
    { weight: 1, arbitrary: text.filter((id) => id !== "" && !(id in Object.prototype) && id !== "global") },
  ),
  kind: fc.nat(8),
  place: fc.nat(6),
  label,
  properties,
  wires: fc.array(fc.array(text, { maxLength: 2 }), { maxLength: 2 }),
});

/** Valid configurations, with the nodes of all tabs and subflows in any order. */
const configuration: fc.Arbitrary<FlowNode[]> = fc
  .uniqueArray(draft, { selector: ({ id }) => id, maxLength: 14 })
  .map((drafts) => {
    const containers = drafts.filter(({ kind }) => kind < 3);
    const subflows = containers.filter(({ kind }) => kind === 2);
    return drafts.map(({ id, kind, place, label, properties, wires }): FlowNode => {
      const z = containers[place]?.id ?? (place === 6 ? "missing" : undefined);
      const inner = { ...properties, ...(z !== undefined && { z }) };
      switch (kind) {
        case 0:
        case 1:
          return { id, type: "tab", label, ...properties };
        case 2:
          return { id, type: "subflow", ...properties, name: label };
        case 3:
          return { id, type: "group", ...inner, x: 1, y: 2, w: 10, h: 20 };
        case 4:
          return { ...inner, id, type: "mqtt-broker", label };
        case 5: {
          const subflow = subflows.find((each) => each.id !== z);
          // Not in a subflow, which could then contain itself.
          return subflow === undefined || subflows.some((each) => each.id === z)
            ? { id, type: "junction", ...inner, x: 0, y: 0 }
            : { id, type: `subflow:${subflow.id}`, ...inner, x: 1.5, y: -2 };
        }
        default:
          return { id, type: "function", ...inner, wires: wires.map((targets) => [...targets]), y: 40, x: 20 };
      }
    });
  });

describe.each(formats)("%s", (format) => {
  test("keeps everything in a folder, in place of an earlier export too", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(configuration, { minLength: 1, maxLength: 3 }), async (configurations) => {
        await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
        for (const flows of configurations) {
          await exportFolder(folder.path, flows, { format });
          expectSame(flows, await read(folder.path));
        }
      }),
      { numRuns: Number(process.env["FLOWGATE_FILES_RUNS"] ?? 40) },
    );
  });

  test("keeps everything in a file", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
    const file = join(folder.path, `flows.${format}`);
    await fc.assert(
      fc.asyncProperty(configuration, async (flows) => {
        await exportFile(file, flows);
        expectSame(flows, await read(file));
      }),
      { numRuns: Number(process.env["FLOWGATE_FILES_RUNS"] ?? 40) },
    );
  });

  test("keeps keys that are longer than 1,024 characters only because of escapes", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "flowgate-"));
    const file = join(folder.path, `flows.${format}`);
    const keys = Array.from({ length: 10 }, (_, at) => `${"x".repeat(1_015 + at)}\u2029`);
    const flows = [{ id: "t", type: "tab", ...Object.fromEntries(keys.map((name) => [name, name])) }];
    await exportFile(file, flows);
    expect(await read(file)).toEqual(flows);
  });
});

function expectSame(flows: readonly FlowNode[], found: readonly FlowNode[]): void {
  const diff = diffFlows({ flows, credentials: new Map() }, { flows: found, credentials: new Map() });
  expect(diff).toEqual({ containers: [] });
}
