import { readFileSync } from "node:fs";
import { findPackageJSON } from "node:module";
import { join } from "node:path";
import type { Logger } from "pino";
import { type Analysis, type AnalysisOptions, openAnalysis } from "../deployments/analysis/analysis.ts";
import type { Options } from "../options/parse.ts";
import { FlowStats, endLeftovers } from "@flowgate/runtime";
import type { CertificateOptions, Certificates } from "../server/http/certificates.ts";
import { lockDataDir } from "../store/lock.ts";
import { openStore } from "../store/open-store.ts";
import type { Store } from "../store/store.ts";
import { type Tracing, openTracing } from "../telemetry/trace.ts";
import { Ports } from "./ports.ts";

/** The configuration of the program. */
export type Configuration = {
  readonly options: Options;
  /** Replaces the store of the options; it is not closed. */
  readonly customStore: Store | undefined;
  /** True if the service opens a port and a Unix socket of its own. */
  readonly listen: boolean;
  readonly log: Logger;
};

/** The parts that all others build on. */
export type Foundation = Pick<Configuration, "options" | "listen" | "log"> & {
  /** The version of this package. */
  readonly version: string;
  readonly store: Store;
  readonly ports: Ports;
  readonly tracing: Tracing;
  /** Threads that compare flows. */
  readonly analysis: Analysis;
  /** Undefined without metrics. */
  readonly stats: FlowStats | undefined;
  /** The certificates of the API's port; undefined without TLS. */
  readonly certificates: Certificates | undefined;
  /** The certificates of the port of HTTP-in nodes; undefined without TLS. */
  readonly flowCertificates: Certificates | undefined;
  /** Names the runtime processes, for the next start. */
  readonly processFile: string;
};

/**
 * Locks the data directory, ends processes of an earlier run, and opens the store. Resources are added to the stack.
 */
export async function openFoundation(
  { options, customStore, listen, log }: Configuration,
  stack: AsyncDisposableStack,
): Promise<Foundation> {
  const { dataDir, runtime, tls } = options;
  const certificates = tls && stack.use(await loadCertificates(tls, log));
  const flowTls = runtime.mode === "none" ? undefined : runtime.http.tls;
  const flowCertificates = flowTls && stack.use(await loadCertificates({ ...flowTls, name: "runtime.http.tls" }, log));
  stack.use(lockDataDir(dataDir));
  const processFile = join(dataDir, "runtime-process");
  await endLeftovers(processFile, log);
  const version = readVersion();
  const tracing = stack.use(await openTracing(options.tracing, { version, log }));
  const store = customStore ?? stack.use(await openStore(options));
  stack.use(logHealth(store, log));
  stack.use(logKeys(store, log));
  const ports = new Ports(options, listen);
  ports.protectServers(store, options);
  ports.protectIssuers(options.adminAuth, runtime);
  return {
    options,
    listen,
    log,
    version,
    store,
    ports,
    tracing,
    analysis: stack.use(openAnalysis({ log, ...threadLimits(options) })),
    stats: options.metrics.enabled ? new FlowStats() : undefined,
    certificates,
    flowCertificates,
    processFile,
  };
}

/** The limits of the threads that work with flows. */
export function threadLimits({ limits }: Options): Omit<AnalysisOptions, "log"> {
  const { analysisMs, deploymentAnalysisMs, memoryMb } = limits;
  return {
    memoryMb,
    readLimit: { maxMs: analysisMs, option: "limits.analysisMs" },
    deploymentLimit: { maxMs: deploymentAnalysisMs, option: "limits.deploymentAnalysisMs" },
  };
}

/** Loads node:tls, which takes a service without TLS 20 ms of CPU time. */
async function loadCertificates(options: CertificateOptions, log: Logger): Promise<Certificates> {
  const { openCertificates } = await import("../server/http/certificates.ts");
  return openCertificates(options, log);
}

function readVersion(): string {
  const path = findPackageJSON(import.meta.url);
  return path === undefined ? "unknown" : (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
}

/** Logs when the store fails, and when it can be used again. Disposing ends it. */
function logHealth(store: Store, log: Logger): Disposable {
  return store.onHealthChange(() => {
    const health = store.health();
    if (health.isUsable) {
      log.info("the store can be used again");
    } else {
      log.error(`the store has failed: ${health.message}`);
    }
  });
}

/** Logs whether credentials are encrypted with the configured secret, now if they are not, and after each change. Disposing ends it. */
function logKeys({ keys }: Store, log: Logger): Disposable {
  const isConfigured = (): boolean => keys.current().id === keys.configured().id;
  const warn = (): void =>
    log.warn("credentials are encrypted with a previous secret: run flowgate credentials rotate to replace it");
  let wasConfigured = isConfigured();
  if (!wasConfigured) {
    warn();
  }
  return keys.onChange(() => {
    if (keys.problem() === undefined && isConfigured() !== wasConfigured) {
      wasConfigured = !wasConfigured;
      if (wasConfigured) {
        log.info("credentials are encrypted with the configured secret from now on");
      } else {
        warn();
      }
    }
  });
}
