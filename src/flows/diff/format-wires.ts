import type { JsonValue } from "@bufbuild/protobuf";
import type { PropertyChange } from "./flows-diff.ts";

/** Formats the change of all wires, or of those of one output (`wires[0]`). Outputs are counted from 1, as in the editor. */
export function formatWires(
  path: PropertyChange["path"],
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  refer: (id: string) => string,
): string[] {
  const [, output] = path;
  if (typeof output === "number") {
    return formatOutput(output, idsOf(before), idsOf(after), refer);
  }
  const [outputsBefore, outputsAfter] = [listOf(before), listOf(after)];
  return Array.from({ length: Math.max(outputsBefore.length, outputsAfter.length) }, (_, index) =>
    formatOutput(index, idsOf(outputsBefore[index]), idsOf(outputsAfter[index]), refer),
  ).flat();
}

function formatOutput(
  index: number,
  before: readonly string[],
  after: readonly string[],
  refer: (id: string) => string,
): string[] {
  const [idsBefore, idsAfter] = [new Set(before), new Set(after)];
  const parts = [
    ...after.filter((id) => !idsBefore.has(id)).map((id) => `+ ${refer(id)}`),
    ...before.filter((id) => !idsAfter.has(id)).map((id) => `- ${refer(id)}`),
  ];
  return [`output ${index + 1}: ${parts.length === 0 ? "the same nodes" : parts.join(", ")}`];
}

function idsOf(value: JsonValue | undefined): string[] {
  return listOf(value).filter((id) => typeof id === "string");
}

function listOf(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : [];
}
