/** The options that flags and environment variables can set, besides the configuration file. */
export const settings = [
  {
    flag: "host",
    variable: "FLOWGATE_HOST",
    path: ["host"],
    kind: "text",
    hint: "address",
    help: "Listen on this address",
  },
  {
    flag: "port",
    variable: "FLOWGATE_PORT",
    path: ["port"],
    kind: "number",
    hint: "number",
    help: "Listen on this port; 0 takes a free one",
  },
  {
    flag: "data-dir",
    variable: "FLOWGATE_DATA_DIR",
    path: ["dataDir"],
    kind: "text",
    hint: "path",
    help: "Keep the store, its key and the files of the runtime here",
  },
  {
    flag: "store",
    variable: "FLOWGATE_STORE",
    path: ["store"],
    kind: "text",
    hint: "url",
    help: "Keep revisions and tokens there, as in sqlite:/path/to/file.db",
  },
  {
    flag: "runtime-port",
    variable: "FLOWGATE_RUNTIME_PORT",
    path: ["runtime", "port"],
    kind: "number",
    hint: "number",
    help: "The port of the flows' own HTTP-in nodes",
  },
  {
    flag: "metrics-port",
    variable: "FLOWGATE_METRICS_PORT",
    path: ["metrics", "port"],
    kind: "number",
    hint: "number",
    help: "Serve /metrics on a port of its own, without a token",
  },
  {
    flag: "tracing-endpoint",
    variable: "FLOWGATE_TRACING_ENDPOINT",
    path: ["tracing", "endpoint"],
    kind: "text",
    hint: "url",
    help: "Send traces to this OpenTelemetry collector",
  },
  {
    flag: "drain-delay-ms",
    variable: "FLOWGATE_DRAIN_DELAY_MS",
    path: ["drain", "delayMs"],
    kind: "number",
    hint: "number",
    help: "Take calls for so long after SIGTERM, while health says not ready",
  },
] as const;

export type Setting = (typeof settings)[number];

/** Text that is no number stays text: that it is wrong is for the options to say. */
export function readSetting({ kind }: Setting, text: string): string | number {
  return kind === "number" && /^\d{1,9}$/.test(text) ? Number(text) : text;
}
