import { validateHeaderName, validateHeaderValue } from "node:http";
import * as z from "zod";
import { flag, port, text } from "./values.ts";

export const metrics = z.strictObject({
  enabled: flag.default(true).describe("Whether to collect metrics and serve them at `/metrics`."),
  port: port
    .optional()
    .describe(
      "A separate port for `/metrics`, without a token; 0 takes a free one. Absent: served on `port`, with the permission `metrics.read`.",
    ),
  host: text
    .default("127.0.0.1")
    .describe("The address of `metrics.port`. All clients that can reach it may read the metrics."),
});

export const tracing = z.strictObject({
  endpoint: z
    .string("must be a URL")
    .refine(
      isPlainUrl,
      "must be an http or https URL such as http://127.0.0.1:4318/v1/traces, without user and password; use tracing.headers for those",
    )
    .describe(
      "The URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`.",
    ),
  headers: z
    .record(z.string(), z.string("must be text"))
    .refine(
      (headers) => Object.entries(headers).every(([name, value]) => isHeader(name, value)),
      "must be names and values of HTTP headers",
    )
    .readonly()
    .default({})
    .describe("Headers sent to the collector, for example to authenticate. Never logged."),
  sampleRatio: z
    .number("must be a number from 0 to 1")
    .min(0, "must be a number from 0 to 1")
    .max(1, "must be a number from 0 to 1")
    .default(1)
    .describe("The fraction of traces to record, for traces that begin here; for others the caller has decided."),
  serviceName: text.default("flowgate").describe("The name of the service in its traces (`service.name`)."),
});

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "";
}

function isHeader(name: string, value: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}
