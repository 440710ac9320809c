import type { Drawing, Element, MeasureText, NodeElement, WireElement } from "./elements.ts";
import { grow, measures, type Box } from "./geometry.ts";
import { paintedBox, surroundings, type Overlays } from "./overlays.ts";
import { labelFont, paintGroup, paintJunction, paintNode, paintStub, paintSubflowPort } from "./paint-elements.ts";
import { paintBadges, paintMove, paintOutline, paintSign } from "./paint-marks.ts";
import { SpatialIndex } from "./spatial-index.ts";
import type { Theme } from "./theme.ts";
import { visibleBox, type Size, type Viewport } from "./viewport.ts";

/** The part of a canvas's context that is used, so that a worker's does as well. */
export type Canvas = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

export type Scene = { readonly drawing: Drawing; readonly index: SpatialIndex<Element> };

/** The level of detail: everything, the parts visible in a small picture, or blocks of colour and lines only. */
type Detail = "full" | "shapes" | "blocks";

const detailScales = { full: 0.5, shapes: 0.25 } as const;

export function createScene(drawing: Drawing): Scene {
  return { drawing, index: new SpatialIndex(drawing.elements) };
}

export type Picture = {
  readonly view: Viewport;
  /** In CSS pixels. */
  readonly size: Size;
  /** Pixels of the canvas for one CSS pixel. */
  readonly pixelRatio: number;
  readonly theme: Theme;
  readonly overlays: Overlays;
  /** A small picture of the whole, where the signs of changes would cover everything. */
  readonly isThumbnail?: boolean;
};

/** Paints the visible part of a scene; with `region`, only that part. */
export function paint(canvas: Canvas, scene: Scene, picture: Picture, region?: Box): void {
  const { view, size, pixelRatio, theme } = picture;
  const area = region ?? visibleBox(view, size);
  const factor = view.scale * pixelRatio;
  canvas.save();
  canvas.setTransform(factor, 0, 0, factor, -view.x * factor, -view.y * factor);
  if (region !== undefined) {
    canvas.beginPath();
    canvas.rect(region.x, region.y, region.width, region.height);
    canvas.clip();
  }
  canvas.fontKerning = "normal";
  canvas.fillStyle = theme.background;
  canvas.fillRect(area.x, area.y, area.width, area.height);
  const detail = detailAt(view.scale);
  if (detail === "full") {
    paintGrid(canvas, area, theme);
  }
  const { left, top, bottom, statusWidth } = surroundings;
  const elements = scene.index.find({
    x: area.x - statusWidth,
    y: area.y - top - bottom,
    width: area.width + statusWidth + left,
    height: area.height + 2 * (top + bottom),
  });
  paintElements(canvas, elements, detail, picture);
  canvas.restore();
}

export function regionOf(elements: readonly Element[], view: Viewport, size: Size): readonly Box[] {
  const seen = visibleBox(view, size);
  return elements
    .map(paintedBox)
    .filter(
      (box) =>
        box.x < seen.x + seen.width &&
        seen.x < box.x + box.width &&
        box.y < seen.y + seen.height &&
        seen.y < box.y + box.height,
    );
}

export function createMeasureText(canvas: Canvas): MeasureText {
  const widths = new Map<string, number>();
  return (text) => {
    const known = widths.get(text);
    if (known !== undefined) {
      return known;
    }
    canvas.font = labelFont;
    // Node-RED measures elements, whose texts have kerning and whose widths are whole pixels.
    canvas.fontKerning = "normal";
    const width = Math.round(canvas.measureText(text).width);
    widths.set(text, width);
    return width;
  };
}

function detailAt(scale: number): Detail {
  return scale >= detailScales.full ? "full" : scale >= detailScales.shapes ? "shapes" : "blocks";
}

function paintElements(
  canvas: Canvas,
  elements: readonly Element[],
  detail: Detail,
  { theme, overlays, view: { scale }, isThumbnail = false }: Picture,
): void {
  const { selected } = overlays;
  const wires: WireElement[] = [];
  const nodes: NodeElement[] = [];
  for (const element of elements) {
    if (element.kind === "group") {
      paintGroup(canvas, element, theme, detail === "full");
    } else if (element.kind === "wire") {
      wires.push(element);
    } else if (element.kind === "link" && (element.from === selected || element.to === selected)) {
      wires.push(element);
    } else if (element.kind === "node") {
      nodes.push(element);
    }
  }
  paintWires(canvas, wires, detail, theme, selected, scale);
  if (detail !== "full") {
    paintBlocks(canvas, nodes, detail === "shapes" ? theme.border : undefined);
  }
  for (const element of elements) {
    if (element.kind === "node" && detail === "full") {
      paintNode(canvas, element, theme);
    } else if (element.kind === "junction" && detail !== "blocks") {
      paintJunction(canvas, element, theme);
    } else if (element.kind === "port") {
      paintSubflowPort(canvas, element, theme);
    } else if (element.kind === "stub" && element.of === selected) {
      paintStub(canvas, element, theme);
    }
  }
  for (const element of elements) {
    if (element.kind === "move") {
      paintMove(canvas, element, theme, scale);
    } else {
      paintOutline(canvas, element, theme, overlays, scale);
    }
  }
  for (const element of isThumbnail ? [] : elements) {
    paintSign(canvas, element, theme, scale);
  }
  for (const node of nodes) {
    paintBadges(canvas, node, theme, overlays, detail === "full", scale);
  }
}

/** All wires of one style are one path, which is much faster than a path each. */
function paintWires(
  canvas: Canvas,
  wires: readonly WireElement[],
  detail: Detail,
  theme: Theme,
  selected: string | undefined,
  scale: number,
): void {
  const styles = new Map<string, WireElement[]>();
  for (const wire of wires) {
    const isSelected = wire.from === selected || wire.to === selected;
    const style =
      wire.change ??
      (isSelected && wire.kind === "wire"
        ? "selected"
        : wire.isDisabled
          ? isLong(wire)
            ? "faint"
            : "disabled"
          : wire.kind);
    const same = styles.get(style);
    if (same === undefined) {
      styles.set(style, [wire]);
    } else {
      same.push(wire);
    }
  }
  const thin = 1 / scale;
  for (const [style, same] of styles) {
    canvas.beginPath();
    for (const { curve } of same) {
      traceCurve(canvas, curve, detail === "blocks");
    }
    const isPlain = style === "wire";
    canvas.lineWidth =
      detail === "blocks"
        ? thin * (isPlain ? 1 : 2)
        : isPlain || style === "selected"
          ? 3
          : style === "added" || style === "removed"
            ? 4
            : 2;
    canvas.strokeStyle = wireColor(style, theme);
    // Dashes that are smaller than a pixel take seconds for thousands of wires.
    canvas.setLineDash(detail === "full" || style === "removed" ? wireDash(style) : []);
    canvas.stroke();
  }
  canvas.setLineDash([]);
}

/** Dashes are also computed where the wire is out of view. */
function isLong({ box }: WireElement): boolean {
  return box.width + box.height > 4000;
}

function wireColor(style: string, theme: Theme): string {
  switch (style) {
    case "added":
    case "removed":
    case "changed":
    case "moved":
      return theme.change[style];
    case "selected":
      return theme.selection;
    case "disabled":
    case "faint":
      return theme.disabledWire;
    default:
      return style === "link" ? theme.link : theme.wire;
  }
}

function wireDash(style: string): number[] {
  return style === "disabled" ? [10, 8] : style === "link" ? [25, 4] : style === "removed" ? [6, 6] : [];
}

function traceCurve(canvas: Canvas, curve: readonly number[], isStraight: boolean): void {
  const at = (index: number): number => curve[index] ?? 0;
  canvas.moveTo(at(0), at(1));
  if (isStraight) {
    canvas.lineTo(at(curve.length - 2), at(curve.length - 1));
    return;
  }
  for (let index = 2; index + 5 < curve.length; index += 6) {
    canvas.bezierCurveTo(at(index), at(index + 1), at(index + 2), at(index + 3), at(index + 4), at(index + 5));
  }
}

/** One path for all nodes of a color, and one for all borders. */
function paintBlocks(canvas: Canvas, nodes: readonly NodeElement[], border: string | undefined): void {
  for (const [color, same] of Map.groupBy(nodes, (node) => node.color)) {
    canvas.fillStyle = color;
    for (const { box } of same) {
      canvas.fillRect(box.x, box.y, box.width, box.height);
    }
  }
  if (border !== undefined) {
    canvas.beginPath();
    for (const { box } of nodes) {
      canvas.rect(box.x, box.y, box.width, box.height);
    }
    canvas.lineWidth = 1;
    canvas.strokeStyle = border;
    canvas.stroke();
  }
}

function paintGrid(canvas: Canvas, area: Box, theme: Theme): void {
  const { grid } = measures;
  const { x, y, width, height } = grow(area, grid);
  canvas.beginPath();
  for (let column = Math.ceil(x / grid) * grid; column < x + width; column += grid) {
    canvas.moveTo(column, y);
    canvas.lineTo(column, y + height);
  }
  for (let row = Math.ceil(y / grid) * grid; row < y + height; row += grid) {
    canvas.moveTo(x, row);
    canvas.lineTo(x + width, row);
  }
  canvas.lineWidth = 1;
  canvas.strokeStyle = theme.grid;
  canvas.stroke();
}
