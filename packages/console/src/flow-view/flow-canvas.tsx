import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { visibleText } from "../components/visible-text.ts";
import { texts } from "../texts/flow-view.ts";
import { CanvasView, ViewState } from "./canvas-view.ts";
import type { Drawing } from "./elements.ts";
import { attachGestures, zoomBy } from "./gestures.ts";
import { Minimap } from "./minimap.tsx";
import { noOverlays, type Overlays } from "./overlays.ts";
import { darkTheme, lightTheme, type Theme } from "./theme.ts";
import "./flow-view.css";

export function FlowCanvas({
  drawing,
  name,
  overlays = noOverlays,
  state: sharedState,
  focus,
  onSelect,
}: {
  readonly drawing: Drawing;
  readonly name: string;
  readonly overlays?: Overlays;
  readonly state?: ViewState;
  /** The id of an element, or of one of its wires, that is brought into view when it changes. */
  readonly focus?: string | undefined;
  readonly onSelect?: (id: string | undefined) => void;
}): ReactNode {
  const [ownState] = useState(() => new ViewState());
  const state = sharedState ?? ownState;
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState<CanvasView>();
  const theme = useTheme();
  const select = useRef(onSelect);
  useEffect(() => {
    select.current = onSelect;
  });

  useEffect(() => {
    if (canvas.current === null || frame.current === null) {
      return undefined;
    }
    const created = new CanvasView(canvas.current, state, emptyDrawing);
    const element = frame.current;
    const detach = attachGestures(element, created, (pixel) => select.current?.(created.elementAt(pixel)?.id));
    const observer = new ResizeObserver(([entry]) => {
      const { width = 0, height = 0 } = entry?.contentRect ?? {};
      created.resize({ width, height }, devicePixelRatio);
      // Without a size there is no place to show anything.
      if (width > 0) {
        setView(created);
      }
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      detach();
      created[Symbol.dispose]();
      setView(undefined);
    };
  }, [state]);

  useEffect(() => view?.setTheme(theme), [view, theme]);
  useEffect(() => {
    if (view === undefined) {
      return;
    }
    const isOther = view.drawing.container !== drawing.container;
    view.setDrawing(drawing);
    if (isOther) {
      view.fit();
    }
  }, [view, drawing]);
  useEffect(() => view?.setOverlays(overlays), [view, overlays]);
  const revealed = useRef("");
  useEffect(() => {
    const place = `${drawing.container} ${focus}`;
    const element = drawing.elements.findLast(({ id }) => id === focus);
    // Once: a deployment must not move what someone looks at.
    if (view !== undefined && place !== revealed.current && (element !== undefined || focus === undefined)) {
      revealed.current = place;
      if (element !== undefined) {
        view.reveal(element.box);
      }
    }
  }, [view, focus, drawing]);

  return (
    <div className="flow-canvas">
      {/* The drawing has its own keys. */}
      <div
        ref={frame}
        className="flow-canvas-frame"
        role="application"
        aria-label={texts.drawing(visibleText(name))}
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
      >
        <canvas ref={canvas} aria-hidden="true" />
      </div>
      <div className="flow-canvas-buttons">
        <button type="button" aria-label="Zoom in" onClick={() => view && zoomBy(view, 1.4)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" onClick={() => view && zoomBy(view, 1 / 1.4)}>
          −
        </button>
        <button type="button" aria-label="Show all" onClick={() => view?.fit()}>
          ⤢
        </button>
      </div>
      {view === undefined ? null : <Minimap view={view} drawing={drawing} theme={theme} />}
    </div>
  );
}

const emptyDrawing: Drawing = { container: "", elements: [], bounds: undefined };

function useTheme(): Theme {
  const isDark = useSyncExternalStore(watchScheme, () => darkScheme.matches);
  return isDark ? darkTheme : lightTheme;
}

const darkScheme = matchMedia("(prefers-color-scheme: dark)");

function watchScheme(onChange: () => void): () => void {
  darkScheme.addEventListener("change", onChange);
  return () => darkScheme.removeEventListener("change", onChange);
}
