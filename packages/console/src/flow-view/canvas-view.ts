import type { Drawing, Element } from "./elements.ts";
import { contains, grow, type Box, type Point } from "./geometry.ts";
import { changedNodes, elementsOf, noOverlays, type Overlays } from "./overlays.ts";
import { createScene, paint, regionOf, type Scene } from "./painter.ts";
import { lightTheme, type Theme } from "./theme.ts";
import { fit, pointAt, reveal, type Size, type Viewport } from "./viewport.ts";

/** Painting this many regions takes as long as painting all. */
const maxRegions = 40;

/** Fingers and pointers are not exact. */
const tolerance = 5;

export class ViewState {
  #view: Viewport = { x: 0, y: 0, scale: 1 };
  readonly #listeners = new Set<() => void>();

  get view(): Viewport {
    return this.#view;
  }

  set(view: Viewport): void {
    const { x, y, scale } = this.#view;
    if (view.x !== x || view.y !== y || view.scale !== scale) {
      this.#view = view;
      for (const notify of this.#listeners) {
        notify();
      }
    }
  }

  listen = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
}

/**
 * Keeps a canvas up to date: paints at most once a frame, only the regions that look different, and nothing while nothing changes.
 */
export class CanvasView {
  readonly state: ViewState;
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  readonly #endListening: () => void;
  #scene: Scene;
  #theme: Theme = lightTheme;
  #overlays: Overlays = noOverlays;
  #size: Size = { width: 0, height: 0 };
  #pixelRatio = 1;
  #frame: number | undefined;
  /** Undefined: all has to be painted. */
  #regions: Box[] | undefined;

  constructor(canvas: HTMLCanvasElement, state: ViewState, drawing: Drawing) {
    const context = canvas.getContext("2d", { alpha: false });
    if (context === null) {
      throw new TypeError("the browser has no 2D canvas");
    }
    this.#canvas = canvas;
    this.#context = context;
    this.state = state;
    this.#scene = createScene(drawing);
    this.#endListening = state.listen(() => this.#repaint());
    this.#repaint();
  }

  get size(): Size {
    return this.#size;
  }

  get drawing(): Drawing {
    return this.#scene.drawing;
  }

  /** `size` is in CSS pixels. */
  resize(size: Size, pixelRatio: number): void {
    this.#size = size;
    this.#pixelRatio = pixelRatio;
    this.#canvas.width = Math.round(size.width * pixelRatio);
    this.#canvas.height = Math.round(size.height * pixelRatio);
    // An empty canvas would be seen until the next frame.
    this.#regions = undefined;
    this.#paint();
  }

  setDrawing(drawing: Drawing): void {
    if (drawing !== this.#scene.drawing) {
      this.#scene = createScene(drawing);
      this.#repaint();
    }
  }

  setTheme(theme: Theme): void {
    if (theme !== this.#theme) {
      this.#theme = theme;
      this.#repaint();
    }
  }

  setOverlays(overlays: Overlays): void {
    const changed = changedNodes(this.#overlays, overlays);
    this.#overlays = overlays;
    if (changed.size > 0) {
      this.#repaint(regionOf(elementsOf(this.drawing, changed), this.state.view, this.#size));
    }
  }

  fit(): void {
    this.state.set(fit(this.drawing.bounds, this.#size));
  }

  reveal(box: Box): void {
    this.state.set(reveal(this.state.view, box, this.#size));
  }

  elementAt(pixel: Point): Element | undefined {
    const point = pointAt(this.state.view, pixel);
    const margin = tolerance / this.state.view.scale;
    const found = this.#scene.index
      .find({ x: point.x - margin, y: point.y - margin, width: 2 * margin, height: 2 * margin })
      .filter(({ kind, box }) => selectable.has(kind) && contains(grow(box, margin), point));
    return found.findLast(({ kind }) => kind !== "group") ?? found.at(-1);
  }

  [Symbol.dispose](): void {
    this.#endListening();
    if (this.#frame !== undefined) {
      cancelAnimationFrame(this.#frame);
    }
  }

  #repaint(regions?: readonly Box[]): void {
    if (regions?.length === 0) {
      return;
    }
    const all = regions === undefined || (this.#frame !== undefined && this.#regions === undefined);
    this.#regions = all ? undefined : [...(this.#regions ?? []), ...(regions ?? [])];
    this.#frame ??= requestAnimationFrame(() => this.#paint());
  }

  #paint(): void {
    if (this.#frame !== undefined) {
      cancelAnimationFrame(this.#frame);
      this.#frame = undefined;
    }
    const regions = this.#regions;
    this.#regions = undefined;
    if (this.#size.width === 0 || this.#size.height === 0) {
      return;
    }
    const { view } = this.state;
    const picture = {
      view,
      size: this.#size,
      pixelRatio: this.#pixelRatio,
      theme: this.#theme,
      overlays: this.#overlays,
    };
    if (regions === undefined || regions.length > maxRegions) {
      paint(this.#context, this.#scene, picture);
      return;
    }
    for (const region of regions) {
      paint(this.#context, this.#scene, picture, wholePixels(region, view, this.#pixelRatio));
    }
  }
}

const selectable: ReadonlySet<Element["kind"]> = new Set(["node", "junction", "group", "move"]);

/** A clip that ends within a pixel would leave a trace there. */
function wholePixels({ x, y, width, height }: Box, view: Viewport, pixelRatio: number): Box {
  const factor = view.scale * pixelRatio;
  const left = view.x + Math.floor((x - view.x) * factor) / factor;
  const top = view.y + Math.floor((y - view.y) * factor) / factor;
  const right = view.x + Math.ceil((x + width - view.x) * factor) / factor;
  const bottom = view.y + Math.ceil((y + height - view.y) * factor) / factor;
  return { x: left, y: top, width: right - left, height: bottom - top };
}
