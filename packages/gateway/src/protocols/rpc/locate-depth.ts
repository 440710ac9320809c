import type { DescField, DescMessage } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import type { JsonPath } from "../../json/path.ts";
import { fieldRule } from "../../schema/rules.ts";

type Level = {
  readonly desc: DescMessage;
  readonly end: number;
  /** Where its parent continues. */
  readonly next: number;
  /** The way to this message from the one that contains it. */
  readonly path: JsonPath;
  /** The number of items so far of each repeated field. */
  readonly counts: Map<DescField, number>;
};

/**
 * Returns the JSON path of the first message that is nested deeper than `maxDepth` levels, counted as protobuf-es does; undefined
 * if there is none. Does not recurse, since messages can be nested as deeply as they are long.
 */
export function locateDepth(root: DescMessage, bytes: Uint8Array, maxDepth: number): JsonPath | undefined {
  const reader = new BinaryReader(bytes);
  const levels: Level[] = [{ desc: root, end: reader.len, next: reader.len, path: [], counts: new Map() }];
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    if (reader.pos >= level.end) {
      reader.pos = level.next;
      levels.pop();
      continue;
    }
    const [number, wireType] = reader.tag();
    const field = level.desc.fields.find((each) => each.number === number);
    if (field?.message === undefined || wireType !== WireType.LengthDelimited) {
      reader.skip(wireType, number);
      continue;
    }
    const length = reader.uint32();
    const next = reader.pos + length;
    const { key, end } =
      field.fieldKind === "map" ? findEntryValue(reader, next) : { key: indexOf(field, level), end: next };
    levels.push({ desc: field.message, end, next, path: [...nameOf(field), ...key], counts: new Map() });
    if (levels.length > maxDepth) {
      return levels.flatMap((each) => each.path);
    }
  }
  return undefined;
}

/** Advances to the value of a map entry, which is empty if it is absent, and may precede the key. */
function findEntryValue(reader: BinaryReader, entryEnd: number): { key: JsonPath; end: number } {
  let key = "";
  let value = { start: entryEnd, end: entryEnd };
  while (reader.pos < entryEnd) {
    const [number, wireType] = reader.tag();
    if (number === 1 && wireType === WireType.LengthDelimited) {
      key = reader.string();
    } else if (number === 2 && wireType === WireType.LengthDelimited) {
      const valueLength = reader.uint32();
      value = { start: reader.pos, end: reader.pos + valueLength };
      reader.pos += valueLength;
    } else {
      reader.skip(wireType, number);
    }
  }
  reader.pos = value.start;
  return { key: [key], end: value.end };
}

/** The JSON form of these messages has no names for their fields. */
const unnamed = new Set(["google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"]);

function nameOf(field: DescField): JsonPath {
  return fieldRule(field).inline || unnamed.has(field.parent.typeName) ? [] : [field.jsonName];
}

function indexOf(field: DescField, { counts }: Level): JsonPath {
  if (field.fieldKind !== "list") {
    return [];
  }
  const index = counts.get(field) ?? 0;
  counts.set(field, index + 1);
  return [index];
}
