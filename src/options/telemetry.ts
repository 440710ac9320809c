import { validateHeaderName, validateHeaderValue } from "node:http";
import * as z from "zod";
import { flag, isPlainUrl, port, text } from "./values.ts";

export const metrics = z.strictObject({
  enabled: flag.default(true).describe("Collects metrics and serves them at `/metrics`."),
  nodes: flag
    .default(false)
    .describe(
      "Whether messages, errors and durations of flows are counted for each node, and not only for each tab. Up to 2,000 nodes, with four time series each.",
    ),
  port: port
    .optional()
    .describe(
      "Separate port for `/metrics`, without authentication. 0 selects a free port. Absent: served on `port`, to clients with the permission `metrics.read`.",
    ),
  host: text
    .default("localhost")
    .describe(
      "Address that `metrics.port` listens on; `localhost` as for `host`. Every client that reaches it can read the metrics.",
    ),
});

export const tracing = z.strictObject({
  endpoint: z
    .string("must be a URL")
    .refine(
      isPlainUrl,
      "must be an http or https URL such as http://127.0.0.1:4318/v1/traces, without user and password; use tracing.headers for those",
    )
    .describe(
      "URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`.",
    ),
  headers: z
    .record(z.string(), z.string("must be text"))
    .refine(
      (headers) => Object.entries(headers).every(([name, value]) => isHeader(name, value)),
      "must be names and values of HTTP headers",
    )
    .readonly()
    .default({})
    .describe("Headers of the requests to the collector, for example for authentication. Never logged."),
  sampleRatio: z
    .number("must be a number from 0 to 1")
    .min(0, "must be a number from 0 to 1")
    .max(1, "must be a number from 0 to 1")
    .default(1)
    .describe(
      "Fraction of the traces begun by this service that are recorded. For a trace begun by the caller, the caller's sampling decision applies.",
    ),
  serviceName: text.default("flowgate").describe("`service.name` in traces."),
  flows: flag
    .default(false)
    .describe(
      "Whether messages of flows are traced: a span for each node that processes a message, in the trace of the request to an HTTP-in node or a new one. Costs CPU time of the flows for each message, including messages that `sampleRatio` excludes.",
    ),
});

function isHeader(name: string, value: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false;
  }
}
