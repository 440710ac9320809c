import { type ReactNode, useEffect, useRef } from "react";
import type UPlot from "uplot";

export type Series = {
  readonly name: string;
  /** The name of a custom property with the colour, such as `--accent`. */
  readonly color: `--${string}`;
  readonly values: readonly (number | null)[];
};

type ChartProps = {
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
};

const heightPx = 120;

const clock = new Intl.DateTimeFormat("en", { hourCycle: "h23", timeStyle: "medium" });

/**
 * Lines over time. What draws them is loaded when the first one is shown. Screen readers ignore it: its latest values must be on the
 * page too.
 */
export function Chart({ times, series, format }: ChartProps): ReactNode {
  const element = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot>(null);
  const latest = useRef({ data: toData(times, series), series, format });
  useEffect(() => {
    latest.current = { data: toData(times, series), series, format };
    plot.current?.setData(latest.current.data);
  });
  useEffect(() => {
    const target = element.current;
    const controller = new AbortController();
    if (target !== null) {
      void draw(target, latest, plot, controller.signal);
    }
    return () => controller.abort();
  }, []);
  return <div ref={element} aria-hidden="true" />;
}

function toData(times: readonly number[], series: readonly Series[]): UPlot.AlignedData {
  return [[...times], ...series.map(({ values }) => [...values])] as UPlot.AlignedData;
}

type Latest = {
  readonly current: { readonly data: UPlot.AlignedData; readonly series: readonly Series[]; readonly format: Format };
};
type Format = (value: number) => string;

async function draw(
  target: HTMLElement,
  latest: Latest,
  plot: { current: UPlot | null },
  signal: AbortSignal,
): Promise<void> {
  const [{ default: Plot }] = await Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]);
  if (signal.aborted) {
    return;
  }
  // A canvas knows no custom properties, nor `light-dark()`.
  const color = (name: string) => (): string => {
    target.style.color = `var(${name})`;
    return getComputedStyle(target).color;
  };
  const axis = { stroke: color("--muted-text"), grid: { stroke: color("--border"), width: 1 }, ticks: { show: false } };
  const created = new Plot(
    {
      width: target.clientWidth,
      height: heightPx,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false },
      scales: { y: { range: (_, _low, high) => [0, Math.max(high * 1.1, Number.MIN_VALUE)] } },
      axes: [
        { ...axis, size: 28, space: 90, values: (_, splits) => splits.map((seconds) => clock.format(seconds * 1_000)) },
        { ...axis, size: 64, space: 28, values: (_, splits) => splits.map((value) => latest.current.format(value)) },
      ],
      series: [
        {},
        ...latest.current.series.map(({ name, color: property }) => ({
          label: name,
          stroke: color(property),
          width: 1.5,
          points: { show: false },
        })),
      ],
    },
    latest.current.data,
    target,
  );
  plot.current = created;
  const size = new ResizeObserver(() => created.setSize({ width: target.clientWidth, height: heightPx }));
  size.observe(target);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", () => created.redraw(false), { signal });
  signal.addEventListener("abort", () => {
    size.disconnect();
    created.destroy();
    plot.current = null;
  });
}
