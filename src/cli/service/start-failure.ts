import type { Options } from "../../options/parse.ts";
import { CliFailure } from "../failure.ts";

/** Converts an error of a failed start to a one-line message that describes what to do. */
export function explainStartFailure(error: unknown, options: Options): CliFailure {
  const { code, port, address, message } = readError(error);
  const { metrics } = options;
  if (code === "EADDRINUSE" || code === "EACCES") {
    const problem = code === "EADDRINUSE" ? "is in use" : "requires more privileges than this user has";
    if (port === options.port) {
      return new CliFailure(
        `Port ${port} on ${address ?? options.host} ${problem}: choose another with --port, FLOWGATE_PORT or port.`,
      );
    }
    if (metrics.port !== undefined && port === metrics.port) {
      return new CliFailure(
        `Port ${metrics.port} on ${address ?? metrics.host} ${problem}: choose another with --metrics-port, FLOWGATE_METRICS_PORT or metrics.port.`,
      );
    }
  }
  if (code === "EADDRNOTAVAIL" || code === "ENOTFOUND" || code === "EAI_AGAIN") {
    if (metrics.port !== undefined && address === metrics.host && address !== options.host) {
      return new CliFailure(`${metrics.host} is not an address of this machine: choose another with metrics.host.`);
    }
    return new CliFailure(
      `${options.host} is not an address of this machine: choose another with --host, FLOWGATE_HOST or host.`,
    );
  }
  if (code === "ENOENT" && isWorkingDirectoryDeleted()) {
    return new CliFailure(
      `The working directory was deleted, and the data directory ${options.dataDir}, or the store, is relative to it: ` +
        "start Flowgate in another directory, or specify an absolute path with --data-dir, FLOWGATE_DATA_DIR or dataDir.",
    );
  }
  if (code !== undefined && storageCodes.has(code)) {
    const place = `The data directory ${options.dataDir}`;
    const choice = "choose another with --data-dir, FLOWGATE_DATA_DIR or dataDir";
    return new CliFailure(
      options.store === undefined
        ? `${place} cannot be used (${message}): ${choice}.`
        : `${place}, or the store, cannot be used (${message}): ${choice}, or with --store, FLOWGATE_STORE or store.`,
    );
  }
  return new CliFailure(`Flowgate cannot start: ${message}`);
}

const storageCodes = new Set([
  "EACCES",
  "EEXIST",
  "EISDIR",
  "ENOENT",
  "ENOSPC",
  "ENOTDIR",
  "EPERM",
  "EROFS",
  "ERR_SQLITE_ERROR",
]);

function isWorkingDirectoryDeleted(): boolean {
  try {
    process.cwd();
    return false;
  } catch {
    return true;
  }
}

function readError(error: unknown): {
  code: string | undefined;
  port: unknown;
  address: string | undefined;
  message: string;
} {
  if (!(error instanceof Error)) {
    return { code: undefined, port: undefined, address: undefined, message: String(error) };
  }
  const fields: { readonly address?: unknown; readonly hostname?: unknown } = error as object;
  const [message = error.name] = error.message.split("\n");
  return {
    code: "code" in error && typeof error.code === "string" ? error.code : undefined,
    port: "port" in error ? error.port : undefined,
    address: [fields.address, fields.hostname].find((address) => typeof address === "string"),
    message,
  };
}
