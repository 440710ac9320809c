import { type ReactNode, useState } from "react";
import type { GetRuntimeResponse, ProcessUsage } from "@flowgate/client";
import { Chart, type Series } from "../../components/chart.tsx";
import { formatBytes, formatNumber } from "../../components/format.ts";
import { type Column, Table } from "../../components/table.tsx";
import { texts as all } from "../../texts/overview.ts";

type Sample = {
  readonly seconds: number;
  readonly flows: ProcessUsage | undefined;
  readonly service: ProcessUsage | undefined;
};

/** An hour of them. */
const maxSamples = 720;

type Process = { readonly name: string; readonly usage: ProcessUsage | undefined };

const columns: readonly Column<Process>[] = [
  { title: "Process", cell: ({ name }) => name },
  { title: all.usage.heap, cell: ({ usage }) => (usage === undefined ? all.usage.unknown : formatHeap(usage)) },
  { title: "Resident memory", cell: ({ usage }) => formatKnown(usage?.rssBytes, formatBytes) },
  { title: "CPU", cell: ({ usage }) => formatKnown(usage?.cpuShare, formatShare) },
  { title: all.usage.delay, cell: ({ usage }) => formatKnown(usage?.eventLoopDelayMs, formatMs) },
];

export function Usage({
  runtime,
  updatedMs,
}: {
  readonly runtime: GetRuntimeResponse;
  readonly updatedMs: number;
}): ReactNode {
  const samples = useSamples(runtime, updatedMs);
  const { runtimeProcess: flows, serviceProcess: service, disk } = runtime;
  const times = samples.map(({ seconds }) => seconds);
  return (
    <section className="card" aria-labelledby="overview-usage">
      <h2 id="overview-usage">{all.usage.title}</h2>
      <div className="overview-charts">
        <UsageChart title={all.usage.heap} now={[toMib(flows), toMib(service)]} format={formatMib}>
          {{ times, series: toSeries(samples, toMib) }}
        </UsageChart>
        <UsageChart
          title={all.usage.delay}
          now={[flows?.eventLoopDelayMs, service?.eventLoopDelayMs]}
          format={formatMs}
        >
          {{ times, series: toSeries(samples, (usage) => usage?.eventLoopDelayMs) }}
        </UsageChart>
      </div>
      <Table
        label={all.usage.title}
        rows={[
          { name: all.usage.flows, usage: flows },
          { name: all.usage.service, usage: service },
        ]}
        keyOf={({ name }) => name}
        empty=""
        columns={columns}
      />
      {disk === undefined ? null : (
        <p>
          {"Free disk space"}: {all.usage.of(formatBytes(disk.freeBytes), formatBytes(disk.totalBytes))}
        </p>
      )}
    </section>
  );
}

/** Appends each reading to the earlier ones. */
function useSamples({ runtimeProcess, serviceProcess }: GetRuntimeResponse, updatedMs: number): readonly Sample[] {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  const seconds = updatedMs / 1_000;
  if (samples.at(-1)?.seconds !== seconds) {
    setSamples([...samples.slice(1 - maxSamples), { seconds, flows: runtimeProcess, service: serviceProcess }]);
  }
  return samples;
}

function toSeries(
  samples: readonly Sample[],
  read: (usage: ProcessUsage | undefined) => number | undefined,
): readonly Series[] {
  return [
    { name: all.usage.flows, color: "--accent", values: samples.map(({ flows }) => read(flows) ?? null) },
    { name: all.usage.service, color: "--warn", values: samples.map(({ service }) => read(service) ?? null) },
  ];
}

function UsageChart({
  title,
  now: [flows, service],
  format,
  children: { times, series },
}: {
  readonly title: string;
  readonly now: readonly [number | undefined, number | undefined];
  readonly format: (value: number) => string;
  readonly children: { readonly times: readonly number[]; readonly series: readonly Series[] };
}): ReactNode {
  return (
    <figure>
      <figcaption>
        <h3>{title}</h3>
        <span className="overview-key" data-series="flows">
          {all.usage.flows} {formatKnown(flows, format)}
        </span>
        <span className="overview-key" data-series="service">
          {all.usage.service} {formatKnown(service, format)}
        </span>
      </figcaption>
      <Chart times={times} series={series} format={format} />
    </figure>
  );
}

function formatKnown(value: number | undefined, format: (value: number) => string): string {
  return value === undefined ? all.usage.unknown : format(value);
}

function formatHeap({ heapBytes, heapLimitBytes }: ProcessUsage): string {
  return all.usage.of(formatBytes(heapBytes), formatBytes(heapLimitBytes));
}

function toMib(usage: ProcessUsage | undefined): number | undefined {
  return usage && usage.heapBytes / 1024 ** 2;
}

function formatMib(mib: number): string {
  return `${formatNumber(mib)} MiB`;
}

function formatMs(ms: number): string {
  return `${formatNumber(ms)} ms`;
}

function formatShare(share: number): string {
  return `${formatNumber(Math.round(share * 1_000) / 10)} %`;
}
