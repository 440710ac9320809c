import type { Element, MoveElement, NodeElement } from "./elements.ts";
import { centerOf, grow, type Box } from "./geometry.ts";
import { statusLabel } from "./labels.ts";
import type { NodeStatus, Overlays } from "./overlays.ts";
import { roundRect, smallFont } from "./paint-elements.ts";
import { changeSigns, type Theme } from "./theme.ts";

type Canvas = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

export function paintOutline(canvas: Canvas, element: Element, theme: Theme, overlays: Overlays, scale: number): void {
  const { kind, id, box, change } = element;
  if (kind === "wire" || kind === "link" || kind === "stub") {
    return;
  }
  if (change !== undefined) {
    outline(canvas, grow(box, 3), theme.change[change], 3, change === "removed" ? [6, 4] : [], scale);
  }
  if (overlays.highlighted.has(id)) {
    outline(canvas, grow(box, 6), theme.highlight, 3, [8, 4], scale);
  }
  if (overlays.selected === id) {
    outline(canvas, grow(box, 3), theme.selection, 2, [], scale);
  }
}

/** The sign of a change, in a disc that has the same size at any scale below the original. */
export function paintSign(canvas: Canvas, element: Element, theme: Theme, scale: number): void {
  const { change, box } = element;
  if (change === undefined) {
    return;
  }
  const [x, y] = element.kind === "wire" ? middleOf(element.curve) : [box.x - 4, box.y - 4];
  const radius = 8 / Math.min(scale, 1);
  canvas.fillStyle = theme.change[change];
  canvas.beginPath();
  canvas.arc(x, y, radius, 0, 2 * Math.PI);
  canvas.fill();
  canvas.fillStyle = theme.background;
  canvas.font = `bold ${radius * 1.7}px monospace`;
  canvas.textAlign = "center";
  canvas.textBaseline = "middle";
  canvas.fillText(changeSigns[change], x, y + radius * 0.08);
}

/** Paints the live state of a node: its status below, its error count above, its message count beside the status. */
export function paintBadges(
  canvas: Canvas,
  node: NodeElement,
  theme: Theme,
  overlays: Overlays,
  hasDetails: boolean,
  scale: number,
): void {
  const { box } = node;
  const errors = overlays.errors.get(node.id) ?? 0;
  if (!hasDetails) {
    paintSmallBadges(canvas, node, theme, overlays, errors, scale);
    return;
  }
  const status = overlays.statuses.get(node.id);
  if (status !== undefined && !node.isDisabled) {
    paintStatus(canvas, box, status, theme);
  }
  const messages = overlays.messages.get(node.id) ?? 0;
  if (messages > 0) {
    paintPill(canvas, box.x + box.width - 8, box.y - 13, formatCount(messages), theme.panel, theme.text, "right");
  }
  if (errors > 0) {
    paintPill(
      canvas,
      box.x + box.width - 6,
      box.y - 13,
      `! ${formatCount(errors)}`,
      theme.error,
      theme.onError,
      "left",
    );
  }
}

export function paintMove(canvas: Canvas, { from, to }: MoveElement, theme: Theme, scale: number): void {
  const color = theme.change.moved;
  outline(canvas, from, color, 2, [4, 4], scale);
  const [start, end] = [centerOf(from), edgeToward(to, centerOf(from))];
  const angle = Math.atan2(end.y - start.y, end.x - start.x);
  const head = Math.max(10, 6 / scale);
  canvas.strokeStyle = color;
  canvas.fillStyle = color;
  canvas.lineWidth = Math.max(2, 1.5 / scale);
  canvas.beginPath();
  canvas.moveTo(start.x, start.y);
  canvas.lineTo(end.x - head * Math.cos(angle), end.y - head * Math.sin(angle));
  canvas.stroke();
  canvas.beginPath();
  canvas.moveTo(end.x, end.y);
  for (const turn of [-0.45, 0.45]) {
    canvas.lineTo(end.x - head * Math.cos(angle + turn), end.y - head * Math.sin(angle + turn));
  }
  canvas.fill();
}

/** `12`, `1.2k` or `3M`. */
function formatCount(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  const [value, unit] = count < 999_500 ? [count / 1000, "k"] : [count / 1_000_000, "M"];
  return `${value < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : Math.min(Math.round(value), 999)}${unit}`;
}

function paintStatus(canvas: Canvas, box: Box, { text = "", fill, shape }: NodeStatus, theme: Theme): void {
  const color = fill === undefined || !Object.hasOwn(theme.status, fill) ? undefined : theme.status[fill];
  const hasShape = shape !== undefined || color !== undefined;
  const x = box.x + (hasShape ? 3 : -14);
  const y = box.y + box.height + 3;
  const label = statusLabel(text);
  canvas.font = smallFont;
  const width = canvas.measureText(label).width;
  canvas.globalAlpha = 0.9;
  canvas.fillStyle = theme.background;
  canvas.fillRect(x + (hasShape ? 3 : 17), y - 1, width + (hasShape ? 21 : 6), 13);
  canvas.globalAlpha = 1;
  if (hasShape) {
    canvas.lineWidth = 3;
    canvas.strokeStyle = color ?? theme.text;
    canvas.fillStyle = shape === "ring" ? theme.background : (color ?? theme.text);
    roundRect(canvas, { x: x + 6, y: y + 1, width: 9, height: 9 }, 2);
    canvas.fill();
    canvas.stroke();
  }
  canvas.fillStyle = theme.text;
  canvas.textAlign = "left";
  canvas.textBaseline = "alphabetic";
  canvas.fillText(label, x + 20, y + 10);
}

/** Zoomed out, errors stay visible: a picture of the whole tab has to show where they are. */
function paintSmallBadges(
  canvas: Canvas,
  { id, box, isDisabled }: NodeElement,
  theme: Theme,
  overlays: Overlays,
  errors: number,
  scale: number,
): void {
  const { fill } = overlays.statuses.get(id) ?? {};
  const size = 6 / scale;
  if (fill !== undefined && !isDisabled && Object.hasOwn(theme.status, fill)) {
    canvas.fillStyle = theme.status[fill] ?? theme.text;
    canvas.fillRect(box.x, box.y + box.height, size, size / 2);
  }
  if (errors > 0) {
    canvas.fillStyle = theme.error;
    canvas.beginPath();
    canvas.moveTo(box.x + box.width, box.y - size);
    canvas.lineTo(box.x + box.width + size, box.y + size);
    canvas.lineTo(box.x + box.width - size, box.y + size);
    canvas.fill();
  }
}

function paintPill(
  canvas: Canvas,
  x: number,
  y: number,
  text: string,
  fill: string,
  color: string,
  align: "left" | "right",
): void {
  canvas.font = smallFont;
  const width = canvas.measureText(text).width + 10;
  const left = align === "left" ? x : x - width;
  canvas.fillStyle = fill;
  roundRect(canvas, { x: left, y, width, height: 16 }, 8);
  canvas.fill();
  canvas.fillStyle = color;
  canvas.textAlign = "center";
  canvas.textBaseline = "middle";
  canvas.fillText(text, left + width / 2, y + 8.5);
}

function outline(canvas: Canvas, box: Box, color: string, width: number, dash: readonly number[], scale: number): void {
  canvas.strokeStyle = color;
  canvas.lineWidth = Math.max(width, 1.5 / scale);
  canvas.setLineDash([...dash]);
  roundRect(canvas, box, 8);
  canvas.stroke();
  canvas.setLineDash([]);
}

function edgeToward(
  box: Box,
  from: { readonly x: number; readonly y: number },
): { readonly x: number; readonly y: number } {
  const center = centerOf(box);
  const [dx, dy] = [from.x - center.x, from.y - center.y];
  const share = Math.min(
    1,
    box.width / 2 / Math.max(Math.abs(dx), 1e-6),
    box.height / 2 / Math.max(Math.abs(dy), 1e-6),
  );
  return { x: center.x + dx * share, y: center.y + dy * share };
}

function middleOf(curve: readonly number[]): readonly [x: number, y: number] {
  const count = (curve.length - 2) / 6;
  const at = (index: number): number => curve[index] ?? 0;
  if (count % 2 === 0) {
    return [at(3 * count), at(3 * count + 1)];
  }
  const start = 6 * Math.floor(count / 2);
  const [x = 0, y = 0] = [0, 1].map(
    (axis) => (at(start + axis) + 3 * at(start + 2 + axis) + 3 * at(start + 4 + axis) + at(start + 6 + axis)) / 8,
  );
  return [x, y];
}
