import type { ServerResponse } from "node:http";
import { pino } from "pino";
import { expect, test } from "vitest";
import { openExporter } from "../../src/telemetry/exporter.ts";
import { openCollector } from "./collector.ts";

function open(endpoint: string, sampleRatio = 1) {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: null, timestamp: false }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const headers = { "x-key": "the key of the collector" };
  const exporter = openExporter(
    { endpoint, headers, sampleRatio, serviceName: "s", flows: true },
    { version: "1", log },
  );
  const provider = exporter.provider as typeof exporter.provider & { forceFlush(): Promise<void> };
  return {
    lines,
    record: () => provider.getTracer("t").startSpan("s").end(),
    flush: () => provider.forceFlush().catch(() => {}),
    [Symbol.asyncDispose]: () => exporter[Symbol.asyncDispose](),
  };
}

const respondForbidden = (response: ServerResponse) =>
  void response.writeHead(403, "Forbidden").end("what the collector makes of the key of the collector");

test("logs lost spans once, with only the status", async () => {
  await using collector = await openCollector(respondForbidden);
  const warning = {
    level: 40,
    cause: "the collector responded with 403",
    msg: "spans could not be exported (tracing.endpoint)",
  };
  const exporter = open(collector.endpoint);
  for (let round = 0; round < 3; round += 1) {
    exporter.record();
    await exporter.flush();
  }
  expect(collector.requests.length).toBe(3);
  expect(exporter.lines).toEqual([{ ...warning, lost: 1 }]);
  // Shutdown logs the others, and those not sent yet.
  exporter.record();
  await exporter[Symbol.asyncDispose]();
  expect(exporter.lines).toEqual([
    { ...warning, lost: 1 },
    { ...warning, lost: 3 },
  ]);
});

test("shutdown logs spans that exceeded the queue too", async () => {
  await using collector = await openCollector(respondForbidden);
  const exporter = open(collector.endpoint);
  for (let span = 0; span < 5000; span += 1) {
    exporter.record();
  }
  await exporter[Symbol.asyncDispose]();
  expect(exporter.lines.reduce((sum, { lost }) => sum + Number(lost), 0)).toBe(5000);
});

test("logs nothing if all spans are sent", async () => {
  await using collector = await openCollector();
  await using exporter = open(collector.endpoint);
  exporter.record();
  await exporter.flush();
  expect(collector.spans.map(({ name }) => name)).toEqual(["s"]);
  expect(exporter.lines).toEqual([]);
});

test("records the configured fraction of the traces", async () => {
  await using collector = await openCollector();
  await using none = open(collector.endpoint, 0);
  none.record();
  await none.flush();
  expect(collector.requests).toEqual([]);
  await using some = open(collector.endpoint, 0.5);
  for (let span = 0; span < 400; span += 1) {
    some.record();
  }
  await some.flush();
  expect(collector.spans.length).toBeGreaterThan(100);
  expect(collector.spans.length).toBeLessThan(300);
});

test("shutdown sends the buffered spans", async () => {
  await using collector = await openCollector();
  {
    await using exporter = open(collector.endpoint);
    exporter.record();
  }
  expect(collector.spans.length).toBe(1);
});
