import { hash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { createPolledWatch, type PolledWatch } from "@flowgate/base/polled-watch";
import type { Options } from "../options/parse.ts";
import { CliFailure } from "@flowgate/cli";
import type { Program, RunningGateway } from "./program.ts";
import { configPathOf, readOptions } from "./read-options.ts";
import type { Flags } from "./option-flags.ts";
import { untilSignal } from "./until-signal.ts";

/** Runs the service until a signal, and ends the process. */
export async function serve(flags: Flags, program: Program): Promise<void> {
  const path = configPathOf(flags, process.env);
  // Before the file is read, so that no change is missed.
  const watch = path === undefined ? undefined : await createFileWatch(path);
  const options = await readOptions(flags, process.env, program);
  try {
    await start(options, program, { read: () => readOptions(flags, process.env), watch });
  } finally {
    // Everything is closed, also after a failed start. The process must not wait for output that is not read.
    setTimeout(() => {
      // The log's listener would wait for the output to be read.
      process.removeAllListeners("exit");
      program.exit();
    }, 1000).unref();
  }
}

/** How the options are read again. */
type Reloading = {
  readonly read: () => Promise<Options>;
  /** Absent: there is no configuration file. */
  readonly watch: PolledWatch | undefined;
};

/** Runs the service until SIGTERM or SIGINT, and then drains it. */
export async function start(
  options: Options,
  { openFlowgate, exit }: Pick<Program, "openFlowgate" | "exit">,
  { read, watch }: Reloading,
  nowMs?: () => number,
): Promise<void> {
  // Registered first, so that a signal during the start is handled after it.
  const signal = untilSignal(exit, nowMs);
  // By default, SIGUSR1 opens the debugger, through which any process of this user could run code in this process.
  process.on("SIGUSR1", () => {});
  // Without a listener, SIGHUP would terminate the process. During the start, the files are read anyway.
  let reload = async (): Promise<void> => {};
  process.on("SIGHUP", () => void reload());
  await using flowgate = await openFlowgate(options).catch((error: unknown) => {
    throw explainStartFailure(error, options);
  });
  using _ = watch?.start(() => flowgate.reloadUsers(read));
  reload = async () => {
    await flowgate.reloadCertificates();
    await flowgate.reloadUsers(read);
  };
  process.stdout.write(describeStart(flowgate, options));
  // No delay after Ctrl-C: it is for load balancers, and the user would wait.
  await flowgate.drain((await signal) === "SIGTERM" ? options.drain.delayMs : 0);
}

function describeStart(
  { url, consoleUrl, docsUrl, socketPath, metricsUrl, nodeRedUrl }: RunningGateway,
  options: Options,
): string {
  const { runtime } = options;
  const callers = describeCallers(options);
  const authentication =
    callers === ""
      ? "off: all clients that can reach this port have all permissions (set adminAuth to change that)"
      : `on, for ${callers}`;
  const flows = runtime.port === 0 ? "a free port (see GET /settings)" : `port ${runtime.port}`;
  const metrics = metricsUrl === undefined ? "" : `Metrics, without authentication: ${metricsUrl}\n`;
  const nodeRed = nodeRedUrl === undefined ? "" : `Node-RED's admin API, for its tools: ${nodeRedUrl}\n`;
  const console = consoleUrl === undefined ? "" : `Web console: ${consoleUrl}\n`;
  const docs = docsUrl === undefined ? "" : `Documentation of the API: ${docsUrl}\n`;
  const socket = socketPath === undefined ? "" : `Unix socket for local operators: ${socketPath}\n`;
  return `Flowgate listens on ${url}\n${socket}${console}${docs}Authentication: ${authentication}\nHTTP-in nodes of the flows: ${flows} on ${runtime.host}\n${nodeRed}${metrics}`;
}

/** Describes who can authenticate; empty without authentication. */
function describeCallers({ adminAuth, identity }: Options): string {
  const users = adminAuth?.users.length ?? 0;
  const issuers = adminAuth?.issuers.length ?? 0;
  return [
    ...(users === 0 ? [] : [`${users} configured ${users === 1 ? "user" : "users"}`]),
    ...(issuers === 0 ? [] : [`tokens of ${issuers} ${issuers === 1 ? "issuer" : "issuers"}`]),
    ...(identity === undefined ? [] : ["workloads with a SPIFFE ID"]),
  ].join(" and ");
}

/** Converts an error of a failed start to a one-line message that describes what to do. */
export function explainStartFailure(error: unknown, options: Options): CliFailure {
  const { code, port, address, message } = readError(error);
  const { metrics, nodeRed } = options;
  if (code === "EADDRINUSE" || code === "EACCES") {
    const problem = code === "EADDRINUSE" ? "is in use" : "requires more privileges than this user has";
    if (port === options.port) {
      return new CliFailure(
        `Port ${port} on ${address ?? options.host} ${problem}: choose another with --port, FLOWGATE_PORT or port.`,
      );
    }
    if (nodeRed.port !== undefined && port === nodeRed.port) {
      return new CliFailure(
        `Port ${port} on ${address ?? options.host} ${problem}: choose another with --node-red-port, FLOWGATE_NODE_RED_PORT or nodeRed.port.`,
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

/** Watches the content of a file. */
export async function createFileWatch(path: string, pollIntervalMs?: number): Promise<PolledWatch> {
  return createPolledWatch(await fingerprintOf(path), () => fingerprintOf(path), pollIntervalMs);
}

/** A hash, since the file may contain secrets, or the code of the error if it can't be read. */
async function fingerprintOf(path: string): Promise<string> {
  try {
    // A pipe can be read only once.
    return (await stat(path)).isFile() ? hash("sha256", await readFile(path)) : "not a file";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "error";
  }
}
