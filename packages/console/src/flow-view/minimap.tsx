import { type MouseEvent, type ReactNode, useEffect, useMemo, useRef } from "react";
import type { CanvasView } from "./canvas-view.ts";
import type { Drawing } from "./elements.ts";
import { createScene, paint } from "./painter.ts";
import { noOverlays } from "./overlays.ts";
import type { Theme } from "./theme.ts";
import { fit, visibleBox, type Size } from "./viewport.ts";

const size: Size = { width: 160, height: 108 };

/**
 * The whole drawing in a corner, with a frame around the visible part. A click moves there; the keyboard has the arrows
 * of the canvas.
 */
export function Minimap({
  view,
  drawing,
  theme,
}: {
  readonly view: CanvasView;
  readonly drawing: Drawing;
  readonly theme: Theme;
}): ReactNode {
  const picture = useRef<HTMLCanvasElement>(null);
  const frame = useRef<HTMLDivElement>(null);
  const whole = useMemo(() => fit(drawing.bounds, size), [drawing]);

  // Painting all of a large drawing takes long: not for each live value of its nodes.
  useEffect(() => {
    const context = picture.current?.getContext("2d", { alpha: false });
    if (context) {
      paint(context, createScene(drawing), {
        view: whole,
        size,
        pixelRatio: devicePixelRatio,
        theme,
        overlays: noOverlays,
        isThumbnail: true,
      });
    }
  }, [drawing, whole, theme]);

  useEffect(() => {
    const move = (): void => {
      const seen = visibleBox(view.state.view, view.size);
      const [left, top] = [(seen.x - whole.x) * whole.scale, (seen.y - whole.y) * whole.scale];
      const [right, bottom] = [left + seen.width * whole.scale, top + seen.height * whole.scale];
      const style = frame.current?.style;
      if (style !== undefined) {
        const [x, y] = [Math.max(0, Math.min(left, size.width)), Math.max(0, Math.min(top, size.height))];
        style.transform = `translate(${x}px, ${y}px)`;
        style.width = `${Math.max(4, Math.min(right, size.width) - x)}px`;
        style.height = `${Math.max(4, Math.min(bottom, size.height) - y)}px`;
      }
    };
    move();
    return view.state.listen(move);
  }, [view, whole]);

  const show = (event: MouseEvent): void => {
    const { left, top } = event.currentTarget.getBoundingClientRect();
    const { scale } = view.state.view;
    view.state.set({
      scale,
      x: whole.x + (event.clientX - left) / whole.scale - view.size.width / scale / 2,
      y: whole.y + (event.clientY - top) / whole.scale - view.size.height / scale / 2,
    });
  };

  return (
    <div
      className="flow-minimap"
      aria-hidden="true"
      onPointerDown={show}
      onPointerMove={(event) => (event.buttons === 1 ? show(event) : undefined)}
    >
      <canvas ref={picture} width={size.width * devicePixelRatio} height={size.height * devicePixelRatio} />
      <div ref={frame} className="flow-minimap-frame" />
    </div>
  );
}
