import type { CanvasView } from "./canvas-view.ts";
import type { Point } from "./geometry.ts";
import { pan, zoom } from "./viewport.ts";

/** A pointer that has moved less was meant to select. */
const clickDistance = 5;

const keyStep = 80;

/** The factor for one notch of a wheel or one key press. */
const zoomStep = 1.25;

/**
 * Pans and zooms by pointers, wheel and keyboard: drag, two fingers, wheel, wheel with Ctrl, arrows, +, - and 0. Returns what ends this.
 */
export function attachGestures(element: HTMLElement, view: CanvasView, onClick: (pixel: Point) => void): () => void {
  const controller = new AbortController();
  const { signal } = controller;
  const gestures = new Gestures(element, view, onClick);
  element.addEventListener("pointerdown", (event) => gestures.press(event), { signal });
  element.addEventListener("pointermove", (event) => gestures.move(event), { signal });
  element.addEventListener("pointerup", (event) => gestures.release(event), { signal });
  element.addEventListener("pointercancel", (event) => gestures.cancel(event), { signal });
  // Otherwise the page would be zoomed.
  element.addEventListener("wheel", (event) => gestures.turn(event), { signal, passive: false });
  element.addEventListener("keydown", (event) => gestures.type(event), { signal });
  return () => controller.abort();
}

export function zoomBy({ state, size }: CanvasView, factor: number): void {
  state.set(zoom(state.view, factor, { x: size.width / 2, y: size.height / 2 }));
}

class Gestures {
  readonly #element: HTMLElement;
  readonly #view: CanvasView;
  readonly #onClick: (pixel: Point) => void;
  readonly #pointers = new Map<number, Point>();
  #start: Point | undefined;
  #isClick = false;

  constructor(element: HTMLElement, view: CanvasView, onClick: (pixel: Point) => void) {
    this.#element = element;
    this.#view = view;
    this.#onClick = onClick;
  }

  press(event: PointerEvent): void {
    if (event.button > 1 || event.target instanceof HTMLButtonElement) {
      return;
    }
    this.#element.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, this.#pixelOf(event));
    this.#start = this.#pixelOf(event);
    this.#isClick = this.#pointers.size === 1 && event.button === 0;
  }

  move(event: PointerEvent): void {
    const before = this.#pointers.get(event.pointerId);
    if (before === undefined) {
      return;
    }
    const now = this.#pixelOf(event);
    if (this.#isClick && this.#start !== undefined && distance(this.#start, now) < clickDistance) {
      return;
    }
    this.#isClick = false;
    const { state } = this.#view;
    const other = [...this.#pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.#pointers.set(event.pointerId, now);
    if (other === undefined) {
      state.set(pan(state.view, before.x - now.x, before.y - now.y));
      return;
    }
    const [oldMiddle, middle] = [middleOf(before, other), middleOf(now, other)];
    const moved = pan(state.view, oldMiddle.x - middle.x, oldMiddle.y - middle.y);
    state.set(zoom(moved, distance(now, other) / Math.max(distance(before, other), 1), middle));
  }

  release(event: PointerEvent): void {
    if (this.#pointers.delete(event.pointerId) && this.#isClick) {
      this.#isClick = false;
      this.#onClick(this.#pixelOf(event));
    }
  }

  cancel(event: PointerEvent): void {
    this.#pointers.delete(event.pointerId);
    this.#isClick = false;
  }

  turn(event: WheelEvent): void {
    event.preventDefault();
    const { state } = this.#view;
    // Lines or pages instead of pixels.
    const unit =
      event.deltaMode === WheelEvent.DOM_DELTA_PIXEL ? 1 : event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 20 : 400;
    if (event.ctrlKey || event.metaKey) {
      const notches = Math.max(-1, Math.min(1, (event.deltaY * unit) / 100));
      state.set(zoom(state.view, zoomStep ** -notches, this.#pixelOf(event)));
      return;
    }
    const [dx, dy] = event.shiftKey && event.deltaX === 0 ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
    state.set(pan(state.view, dx * unit, dy * unit));
  }

  type(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.#element) {
      return;
    }
    const { state } = this.#view;
    const moves: Readonly<Record<string, readonly [number, number]>> = {
      ArrowLeft: [-keyStep, 0],
      ArrowRight: [keyStep, 0],
      ArrowUp: [0, -keyStep],
      ArrowDown: [0, keyStep],
    };
    const move = Object.hasOwn(moves, event.key) ? moves[event.key] : undefined;
    if (move !== undefined) {
      state.set(pan(state.view, ...move));
    } else if (event.key === "+" || event.key === "=") {
      zoomBy(this.#view, zoomStep);
    } else if (event.key === "-") {
      zoomBy(this.#view, 1 / zoomStep);
    } else if (event.key === "0") {
      this.#view.fit();
    } else {
      return;
    }
    event.preventDefault();
  }

  #pixelOf({ clientX, clientY }: MouseEvent): Point {
    const { left, top } = this.#element.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  }
}

function distance(one: Point, other: Point): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

function middleOf(one: Point, other: Point): Point {
  return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
}
