import type { GroupElement, JunctionElement, NodeElement, StubElement, SubflowPortElement } from "./elements.ts";
import { measures, outputOffset, type Box } from "./geometry.ts";
import { glyphOf, type IconName } from "./icons.ts";
import type { Theme } from "./theme.ts";

type Canvas = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

const family = '"Helvetica Neue", Arial, Helvetica, sans-serif';

/** The font with which Node-RED measures and shows labels. */
export const labelFont = `14px ${family}`;

export const smallFont = `12px ${family}`;
const portFont = `10px ${family}`;
const numberFont = `16px ${family}`;

const glyphPaths = new Map<IconName, Path2D>();

export function paintNode(canvas: Canvas, node: NodeElement, theme: Theme): void {
  const { box, inputs, outputs } = node;
  if (node.button !== undefined) {
    paintButton(canvas, node, theme);
  }
  canvas.lineWidth = 1;
  canvas.strokeStyle = theme.border;
  canvas.setLineDash(node.isDisabled ? [8, 3] : []);
  roundRect(canvas, box, measures.node.radius);
  canvas.globalAlpha = node.isDisabled ? 0.5 : 1;
  canvas.fillStyle = node.color;
  canvas.fill();
  canvas.globalAlpha = 1;
  canvas.stroke();
  canvas.setLineDash([]);
  paintIcon(canvas, node, theme);
  paintLabel(canvas, node, theme);
  if (inputs > 0) {
    paintPort(canvas, box.x, box.y + box.height / 2, theme);
  }
  for (let port = 0; port < outputs; port += 1) {
    paintPort(canvas, box.x + box.width, box.y + box.height / 2 + outputOffset(port, outputs), theme);
  }
}

export function paintJunction(canvas: Canvas, { box, isDisabled }: JunctionElement, theme: Theme): void {
  canvas.lineWidth = 1;
  canvas.strokeStyle = theme.border;
  canvas.fillStyle = theme.port;
  canvas.setLineDash(isDisabled ? [3, 2] : []);
  roundRect(canvas, box, 3);
  canvas.fill();
  canvas.stroke();
  canvas.setLineDash([]);
}

export function paintGroup(canvas: Canvas, group: GroupElement, theme: Theme, hasDetails: boolean): void {
  const { box, label } = group;
  roundRect(canvas, box, 4);
  if (group.fill !== undefined && group.fill !== "none") {
    canvas.globalAlpha = group.fillOpacity;
    canvas.fillStyle = theme.background;
    canvas.fillStyle = group.fill;
    canvas.fill();
  }
  if (group.stroke !== "none") {
    canvas.globalAlpha = group.strokeOpacity;
    canvas.lineWidth = 2;
    canvas.strokeStyle = theme.border;
    canvas.strokeStyle = group.stroke ?? theme.border;
    canvas.setLineDash(group.isDisabled ? [8, 3] : []);
    canvas.stroke();
    canvas.setLineDash([]);
  }
  canvas.globalAlpha = 1;
  if (!hasDetails || label.length === 0) {
    return;
  }
  const [vertical = "n", horizontal] = group.labelPosition;
  const { line } = measures.group;
  const y = vertical === "n" ? box.y + 15 : box.y + box.height - 5 - (label.length - 1) * line;
  canvas.font = labelFont;
  canvas.textBaseline = "alphabetic";
  canvas.textAlign = horizontal === "w" ? "left" : horizontal === "e" ? "right" : "center";
  const x = horizontal === "w" ? box.x + 5 : horizontal === "e" ? box.x + box.width - 5 : box.x + box.width / 2;
  canvas.fillStyle = theme.group;
  canvas.fillStyle = group.labelColor ?? theme.group;
  for (const [index, text] of label.entries()) {
    canvas.fillText(text, x, y + index * line);
  }
}

export function paintSubflowPort(canvas: Canvas, port: SubflowPortElement, theme: Theme): void {
  const { box, direction, label } = port;
  canvas.lineWidth = 1;
  canvas.strokeStyle = theme.border;
  canvas.fillStyle = theme.panel;
  roundRect(canvas, box, 8);
  canvas.fill();
  canvas.stroke();
  const middle = box.y + box.height / 2;
  canvas.fillStyle = theme.text;
  canvas.font = portFont;
  canvas.textBaseline = "middle";
  canvas.textAlign = "center";
  if (port.number === undefined) {
    canvas.fillText(direction === "in" ? "input" : "status", box.x + 20, middle);
  } else {
    canvas.fillText("output", box.x + 20, middle - 8);
    canvas.font = numberFont;
    canvas.fillText(String(port.number), box.x + 20, middle + 7);
  }
  if (label !== "") {
    canvas.font = labelFont;
    canvas.textAlign = "left";
    canvas.fillText(label, box.x + 48, middle);
  }
  paintPort(canvas, direction === "in" ? box.x + box.width : box.x, middle, theme);
}

export function paintStub(canvas: Canvas, { box, side, label }: StubElement, theme: Theme): void {
  const sign = side === "right" ? 1 : -1;
  const start = side === "right" ? box.x : box.x + box.width;
  const middle = box.y + box.height / 2;
  canvas.lineWidth = 2;
  canvas.strokeStyle = theme.link;
  canvas.setLineDash([25, 4]);
  canvas.beginPath();
  canvas.moveTo(start, middle);
  canvas.lineTo(start + sign * 34, middle);
  canvas.stroke();
  canvas.setLineDash([]);
  roundRect(
    canvas,
    { x: side === "right" ? start + 34 : box.x, y: box.y, width: box.width - 34, height: box.height },
    3,
  );
  canvas.fillStyle = theme.panel;
  canvas.fill();
  canvas.lineWidth = 1;
  canvas.stroke();
  canvas.font = smallFont;
  canvas.textBaseline = "middle";
  canvas.textAlign = side === "right" ? "left" : "right";
  canvas.fillStyle = theme.text;
  canvas.fillText(label, start + sign * 42, middle, box.width - 50);
}

export function roundRect(canvas: Canvas, { x, y, width, height }: Box, radius: number): void {
  canvas.beginPath();
  canvas.roundRect(x, y, width, height, radius);
}

function paintPort(canvas: Canvas, x: number, y: number, theme: Theme): void {
  const { size } = measures.port;
  canvas.lineWidth = 1;
  canvas.strokeStyle = theme.border;
  canvas.fillStyle = theme.port;
  roundRect(canvas, { x: x - size / 2, y: y - size / 2, width: size, height: size }, 3);
  canvas.fill();
  canvas.stroke();
}

function paintButton(canvas: Canvas, node: NodeElement, theme: Theme): void {
  const { box, button, color, iconSide } = node;
  const isFaint = button === "off" || node.isDisabled;
  const shift = button === "off" ? 8 : 0;
  const x = iconSide === "right" ? box.x + box.width - 6 - shift : box.x - 26 + shift;
  canvas.lineWidth = 1;
  canvas.strokeStyle = theme.border;
  canvas.globalAlpha = isFaint ? 0.5 : 1;
  canvas.fillStyle = theme.panel;
  roundRect(canvas, { x, y: box.y + 2, width: 32, height: measures.node.height - 4 }, 5);
  canvas.fill();
  canvas.stroke();
  canvas.fillStyle = color;
  canvas.globalAlpha = isFaint ? 0.3 : 1;
  roundRect(canvas, { x: x + (iconSide === "right" ? 11 : 5), y: box.y + 6, width: 16, height: 18 }, 4);
  canvas.fill();
  canvas.globalAlpha = isFaint ? 0.5 : 1;
  canvas.stroke();
  canvas.globalAlpha = 1;
}

function paintIcon(canvas: Canvas, node: NodeElement, theme: Theme): void {
  const { box, label } = node;
  const isRight = node.iconSide === "right" && label.length > 0;
  const { icon: room } = measures;
  const x = isRight ? box.x + box.width - room : box.x;
  const radius = measures.node.radius;
  canvas.fillStyle = "rgba(0, 0, 0, 0.05)";
  canvas.beginPath();
  canvas.roundRect(
    x,
    box.y,
    room,
    box.height,
    label.length === 0 ? radius : isRight ? [0, radius, radius, 0] : [radius, 0, 0, radius],
  );
  canvas.fill();
  if (label.length > 0) {
    canvas.fillStyle = "rgba(0, 0, 0, 0.1)";
    canvas.fillRect(isRight ? x : x + room - 1, box.y + 0.5, 1, box.height - 1);
  }
  canvas.globalAlpha = node.isDisabled ? 0.6 : 1;
  if (node.icon === undefined) {
    canvas.fillStyle = theme.label;
    canvas.font = `bold ${labelFont}`;
    canvas.textAlign = "center";
    canvas.textBaseline = "middle";
    canvas.fillText(firstLetter(node.type), x + room / 2, box.y + box.height / 2 + 1);
  } else {
    paintGlyph(canvas, node.icon, x + 4, box.y + box.height / 2 - 11, theme.icon, node.color);
  }
  canvas.globalAlpha = 1;
}

/** White is invisible on the nearly white nodes, such as comments: those get a dark pen. */
function paintGlyph(canvas: Canvas, icon: IconName, x: number, y: number, color: string, background: string): void {
  const glyph = glyphOf(icon);
  let path = glyphPaths.get(icon);
  if (path === undefined) {
    path = new Path2D(glyph.path);
    glyphPaths.set(icon, path);
  }
  const scale = 22 / 24;
  const pen = background === "#ffffff" ? "#8a9199" : color;
  canvas.translate(x, y);
  canvas.scale(scale, scale);
  if (glyph.fill === true) {
    canvas.fillStyle = pen;
    canvas.fill(path);
  } else {
    canvas.lineWidth = 2;
    canvas.lineJoin = "round";
    canvas.lineCap = "round";
    canvas.strokeStyle = pen;
    canvas.stroke(path);
    canvas.lineJoin = "miter";
    canvas.lineCap = "butt";
  }
  canvas.scale(1 / scale, 1 / scale);
  canvas.translate(-x, -y);
}

function paintLabel(canvas: Canvas, node: NodeElement, theme: Theme): void {
  const { box, label, iconSide, isItalic } = node;
  if (label.length === 0) {
    return;
  }
  canvas.font = isItalic ? `italic ${labelFont}` : labelFont;
  canvas.fillStyle = theme.label;
  canvas.globalAlpha = node.isDisabled ? 0.7 : 1;
  canvas.textBaseline = "middle";
  canvas.textAlign = iconSide === "right" ? "right" : "left";
  const x = iconSide === "right" ? box.x + box.width - 38 : box.x + 38;
  const y = box.y + box.height / 2 - (label.length / 2) * measures.line + 13;
  for (const [index, line] of label.entries()) {
    canvas.fillText(line, x, y + index * measures.line);
  }
  canvas.globalAlpha = 1;
}

function firstLetter(type: string): string {
  return (/[\p{L}\p{N}]/u.exec(type)?.[0] ?? "?").toUpperCase();
}
