import { type JsonValue, toJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { NodeDiff, PropertyChange } from "@flowgate/client";
import { type CodeLanguage, detectLanguage } from "../code-language.ts";

export type PropertyView =
  | ({ readonly kind: "code"; readonly path: string; readonly language: CodeLanguage } & Sides)
  | ({ readonly kind: "value"; readonly path: string } & Sides)
  /** Node ids in wires, links and group members. `output` counts from 1. */
  | {
      readonly kind: "references";
      readonly path: string;
      readonly output?: number;
      readonly added: readonly string[];
      readonly removed: readonly string[];
    };

type Sides = { readonly before: string | undefined; readonly after: string | undefined };

/** Longer values are shown as code. */
const maxInlineChars = 120;

export function viewProperties({ properties }: Pick<NodeDiff, "properties">): PropertyView[] {
  return properties.flatMap(viewProperty);
}

function viewProperty({ path, before: valueBefore, after: valueAfter }: PropertyChange): PropertyView[] {
  const [before, after] = [jsonOf(valueBefore), jsonOf(valueAfter)];
  if (path === "wires" && [before, after].every((value) => isListOf(value, isIds))) {
    const [outputsBefore, outputsAfter] = [listOf(before), listOf(after)];
    return Array.from({ length: Math.max(outputsBefore.length, outputsAfter.length) }, (_, index) => index)
      .filter((index) => JSON.stringify(outputsBefore[index]) !== JSON.stringify(outputsAfter[index]))
      .map((index) => viewReferences(path, outputsBefore[index], outputsAfter[index], index + 1));
  }
  const [, output] = /^wires\[(\d+)\]$/.exec(path) ?? [];
  if (output !== undefined && [before, after].every(isIds)) {
    return [viewReferences("wires", before, after, Number(output) + 1)];
  }
  const areReferences = [before, after].every(references.get(path) ?? (() => false));
  return [areReferences ? viewReferences(path, before, after) : viewValue(path, before, after)];
}

/** Properties with the id of a node, or with several. */
const references: ReadonlyMap<string, (value: JsonValue | undefined) => boolean> = new Map([
  ["z", isId],
  ["g", isId],
  ["links", isIds],
  ["nodes", isIds],
  ["scope", isIds],
]);

function viewValue(path: string, before: JsonValue | undefined, after: JsonValue | undefined): PropertyView {
  const [textBefore, textAfter] = [inlineOf(before), inlineOf(after)];
  const isShort = [before, after].every(isOneLine) && [textBefore, textAfter].every((text) => isInline(text));
  return isShort
    ? { kind: "value", path, before: textBefore, after: textAfter }
    : {
        kind: "code",
        path,
        language: detectLanguage(path, [before, after]),
        before: codeOf(before),
        after: codeOf(after),
      };
}

function isOneLine(value: JsonValue | undefined): boolean {
  return typeof value !== "string" || !value.includes("\n");
}

function isInline(text: string | undefined): boolean {
  return text === undefined || text.length <= maxInlineChars;
}

/** JSON on one line, so that `"1"` and `1` differ. */
function inlineOf(value: JsonValue | undefined): string | undefined {
  return value === undefined ? undefined : JSON.stringify(value);
}

/** Returns text unchanged, and other values as JSON with a line for each member. */
function codeOf(value: JsonValue | undefined): string | undefined {
  return value === undefined || typeof value === "string" ? value : JSON.stringify(value, undefined, 2);
}

/** The ids referred to only before, and only after. Both are empty if only their order differs. */
function viewReferences(
  path: string,
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  output?: number,
): PropertyView {
  const [idsBefore, idsAfter] = [idsOf(before), idsOf(after)];
  const [setBefore, setAfter] = [new Set(idsBefore), new Set(idsAfter)];
  return {
    kind: "references",
    path,
    ...(output !== undefined && { output }),
    added: idsAfter.filter((id) => !setBefore.has(id)),
    removed: idsBefore.filter((id) => !setAfter.has(id)),
  };
}

function idsOf(value: JsonValue | undefined): readonly string[] {
  return (typeof value === "string" ? [value] : listOf(value)).filter(
    (id): id is string => typeof id === "string" && id !== "",
  );
}

function isId(value: JsonValue | undefined): boolean {
  return value === undefined || (typeof value === "string" && value.length <= maxInlineChars);
}

function isIds(value: JsonValue | undefined): boolean {
  return isListOf(value, isId);
}

function isListOf(value: JsonValue | undefined, isItem: (item: JsonValue) => boolean): boolean {
  return value === undefined || (Array.isArray(value) && value.every(isItem));
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : [];
}

function jsonOf(value: Value | undefined): JsonValue | undefined {
  return value === undefined ? undefined : toJson(ValueSchema, value);
}

export function splitChange(
  before: string,
  after: string,
): { readonly start: string; readonly before: string; readonly after: string; readonly end: string } {
  // By characters, so that none is split.
  const [one, two] = [Array.from(before), Array.from(after)];
  const shorter = Math.min(one.length, two.length);
  let start = 0;
  while (start < shorter && one[start] === two[start]) {
    start++;
  }
  let end = 0;
  while (end < shorter - start && one.at(-1 - end) === two.at(-1 - end)) {
    end++;
  }
  return {
    start: one.slice(0, start).join(""),
    before: one.slice(start, one.length - end).join(""),
    after: two.slice(start, two.length - end).join(""),
    end: one.slice(one.length - end).join(""),
  };
}
