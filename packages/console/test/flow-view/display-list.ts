import { drawContainer } from "../../src/flow-view/drawing.ts";
import type { Drawing, Element } from "../../src/flow-view/elements.ts";
import { parseFlowNodes } from "../../src/flow-view/flow-nodes.ts";

/** Nearly the widths of Helvetica, without a font. */
export function measureText(text: string): number {
  return Array.from(text).reduce(
    (width, letter) => width + (/[ijltfI.,:;|'! ]/.test(letter) ? 4 : /[mwMW@]/.test(letter) ? 12 : 8),
    0,
  );
}

/** The picture of the tab `tab` with these nodes. */
export function draw(nodes: readonly object[], tab: object = {}, container = "tab"): Drawing {
  const flows = parseFlowNodes([{ id: "tab", type: "tab", label: "Flow 1", ...tab }, ...nodes]);
  return drawContainer(flows, container, measureText);
}

/** An element a line, so that a change of one is seen in a golden file. */
export function formatDisplayList({ elements, bounds }: Drawing): string {
  return `${[...elements, { kind: "bounds", box: bounds }].map(formatElement).join("\n")}\n`;
}

function formatElement({
  kind,
  id,
  box,
  ...rest
}: Partial<Element> | { kind: string; id?: string; box: unknown }): string {
  const values = Object.entries(rest).filter(([, value]) => value !== undefined && value !== false && value !== "");
  const { x, y, width, height } = (box ?? {}) as Readonly<Record<string, number>>;
  return [
    kind,
    id ?? "",
    box === undefined ? "nothing" : `${x},${y} ${width}x${height}`,
    ...values.map(([name, value]) => `${name}=${JSON.stringify(value)}`),
  ].join(" ");
}
