import { centerOf, type Box, type Point } from "./geometry.ts";

/** The visible part of a drawing: its top left point, and the pixels per unit. */
export type Viewport = { readonly x: number; readonly y: number; readonly scale: number };

export type Size = { readonly width: number; readonly height: number };

const scaleLimits = { min: 0.02, max: 3 } as const;

export function visibleBox({ x, y, scale }: Viewport, { width, height }: Size): Box {
  return { x, y, width: width / scale, height: height / scale };
}

export function pointAt(view: Viewport, pixel: Point): Point {
  return { x: view.x + pixel.x / view.scale, y: view.y + pixel.y / view.scale };
}

export function pan(view: Viewport, dx: number, dy: number): Viewport {
  return { ...view, x: view.x + dx / view.scale, y: view.y + dy / view.scale };
}

/** Changes the scale; the point at the pixel stays in place. */
export function zoom(view: Viewport, factor: number, pixel: Point): Viewport {
  const scale = limitScale(view.scale * factor);
  const { x, y } = pointAt(view, pixel);
  return { x: x - pixel.x / scale, y: y - pixel.y / scale, scale };
}

/** Shows all of a box, not larger than Node-RED shows it. */
export function fit(box: Box | undefined, size: Size): Viewport {
  if (box === undefined || size.width <= 0 || size.height <= 0) {
    return { x: 0, y: 0, scale: 1 };
  }
  const scale = limitScale(Math.min(1, size.width / Math.max(box.width, 1), size.height / Math.max(box.height, 1)));
  return centered(box, size, scale);
}

export function reveal(view: Viewport, box: Box, size: Size): Viewport {
  const seen = visibleBox(view, size);
  const margin = 40 / view.scale;
  const isVisible =
    box.x >= seen.x + margin &&
    box.y >= seen.y + margin &&
    box.x + box.width <= seen.x + seen.width - margin &&
    box.y + box.height <= seen.y + seen.height - margin;
  return isVisible && view.scale >= readableScale ? view : centered(box, size, Math.max(view.scale, readableScale));
}

/** Labels can be read from this scale on. */
const readableScale = 0.6;

function centered(box: Box, size: Size, scale: number): Viewport {
  const { x, y } = centerOf(box);
  return { x: x - size.width / 2 / scale, y: y - size.height / 2 / scale, scale };
}

function limitScale(scale: number): number {
  return Math.max(scaleLimits.min, Math.min(scaleLimits.max, scale));
}
