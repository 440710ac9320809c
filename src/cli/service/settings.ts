/** The options that flags and environment variables can set, besides the configuration file. */
export const settings = [
  {
    flag: "host",
    variable: "FLOWGATE_HOST",
    path: ["host"],
    kind: "text",
    hint: "address",
    help: "listen on this address",
  },
  {
    flag: "port",
    variable: "FLOWGATE_PORT",
    path: ["port"],
    kind: "number",
    hint: "number",
    help: "listen on this port; 0 takes a free one",
  },
  {
    flag: "data-dir",
    variable: "FLOWGATE_DATA_DIR",
    path: ["dataDir"],
    kind: "text",
    hint: "path",
    help: "the directory of the store, its key and the runtime's files",
  },
  {
    flag: "store",
    variable: "FLOWGATE_STORE",
    path: ["store"],
    kind: "text",
    hint: "url",
    help: "the URL of the store, such as sqlite:/path/to/file.db",
  },
  {
    flag: "runtime-port",
    variable: "FLOWGATE_RUNTIME_PORT",
    path: ["runtime", "port"],
    kind: "number",
    hint: "number",
    help: "the port of the flows' own HTTP-in nodes",
  },
  {
    flag: "metrics-port",
    variable: "FLOWGATE_METRICS_PORT",
    path: ["metrics", "port"],
    kind: "number",
    hint: "number",
    help: "serve /metrics on this separate port, without a token",
  },
  {
    flag: "tracing-endpoint",
    variable: "FLOWGATE_TRACING_ENDPOINT",
    path: ["tracing", "endpoint"],
    kind: "text",
    hint: "url",
    help: "send traces to this OpenTelemetry collector",
  },
  {
    flag: "drain-delay-ms",
    variable: "FLOWGATE_DRAIN_DELAY_MS",
    path: ["drain", "delayMs"],
    kind: "number",
    hint: "number",
    help: "accept calls for this long after SIGTERM, while health reports not ready",
  },
] as const;

export type Setting = (typeof settings)[number];

/** Converts the text of a flag or variable. An invalid number stays a text, and is reported by the validation of the options. */
export function readSetting({ kind }: Setting, text: string): string | number {
  return kind === "number" && /^\d{1,9}$/.test(text) ? Number(text) : text;
}
