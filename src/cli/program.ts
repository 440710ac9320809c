import type { Options } from "../options/parse.ts";
import type { migrateStore } from "../store/open-store.ts";

/** The functions that the commands need from the entry point. */
export interface Program {
  /** Loads the service. Only `serve` calls it, so that the other commands are fast. */
  readonly openFlowgate: (options: Options) => Promise<RunningGateway>;
  /** Loads the databases. Replaced in the test of interruptions. */
  readonly migrateStore: typeof migrateStore;
  /** Called with the data directory before the service is loaded. */
  readonly beforeLoad?: (dataDir: string) => void;
  /** Ends the process although something still runs. */
  readonly exit: (code?: number) => never;
}

/** The part of a service that `serve` needs. */
export interface RunningGateway extends AsyncDisposable {
  /** The base URL of the API. */
  readonly url: string;
  /** The URL of the web console, if it is served. */
  readonly consoleUrl: string | undefined;
  /** The URL of the API documentation, if there is one. */
  readonly docsUrl: string | undefined;
  /** The path of the Unix socket that serves the API, if there is one. */
  readonly socketPath: string | undefined;
  /** The URL of the metrics, if they have a port of their own. */
  readonly metricsUrl: string | undefined;
  /** The URL of Node-RED's admin API, if it is served. */
  readonly nodeRedUrl: string | undefined;
  reloadCertificates(): Promise<void>;
  reloadUsers(read: () => Promise<Options>): Promise<void>;
  drain(delayMs: number): Promise<void>;
}
