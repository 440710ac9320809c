import type { Options } from "../../options/parse.ts";
import type { PolledWatch } from "../../base/polled-watch.ts";
import { explainStartFailure } from "./start-failure.ts";
import { untilSignal } from "./until-signal.ts";

/** The part of a gateway that the command needs. */
export interface RunningGateway extends AsyncDisposable {
  /** The base URL of the API. */
  readonly url: string;
  /** The URL of the API documentation, if there is one. */
  readonly docsUrl: string | undefined;
  /** The path of the Unix socket that serves the API, if there is one. */
  readonly socketPath: string | undefined;
  /** The URL of the metrics, if they have a port of their own. */
  readonly metricsUrl: string | undefined;
  reloadCertificates(): Promise<void>;
  reloadUsers(read: () => Promise<Options>): Promise<void>;
  drain(delayMs: number): Promise<void>;
}

/** How the options are read again. */
export type Reloading = {
  readonly read: () => Promise<Options>;
  /** Absent: there is no configuration file. */
  readonly watch: PolledWatch | undefined;
};

/** Runs a gateway until SIGTERM or SIGINT, and then drains it. */
export async function start(
  options: Options,
  open: (options: Options) => Promise<RunningGateway>,
  { read, watch }: Reloading,
  nowMs?: () => number,
): Promise<void> {
  // Registered first, so that a signal during the start is handled after it.
  const signal = untilSignal(nowMs);
  // By default, SIGUSR1 opens the debugger, through which any process of this user could run code in this process.
  process.on("SIGUSR1", () => {});
  // Without a listener, SIGHUP would terminate the process. During the start, the files are read anyway.
  let reload = async (): Promise<void> => {};
  process.on("SIGHUP", () => void reload());
  await using gateway = await open(options).catch((error: unknown) => {
    throw explainStartFailure(error, options);
  });
  using _ = watch?.start(() => gateway.reloadUsers(read));
  reload = async () => {
    await gateway.reloadCertificates();
    await gateway.reloadUsers(read);
  };
  process.stdout.write(describeStart(gateway, options));
  // No delay after Ctrl-C: it is for load balancers, and the user would wait.
  await gateway.drain((await signal) === "SIGTERM" ? options.drain.delayMs : 0);
}

function describeStart({ url, docsUrl, socketPath, metricsUrl }: RunningGateway, options: Options): string {
  const { runtime } = options;
  const callers = describeCallers(options);
  const authentication =
    callers === ""
      ? "off: all clients that can reach this port have all permissions (set adminAuth to change that)"
      : `on, for ${callers}`;
  const flows = runtime.port === 0 ? "a free port (see GET /settings)" : `port ${runtime.port}`;
  const metrics = metricsUrl === undefined ? "" : `Metrics, without authentication: ${metricsUrl}\n`;
  const docs = docsUrl === undefined ? "" : `Documentation of the API: ${docsUrl}\n`;
  const socket = socketPath === undefined ? "" : `Unix socket for local operators: ${socketPath}\n`;
  return `Flowgate listens on ${url}\n${socket}${docs}Authentication: ${authentication}\nHTTP-in nodes of the flows: ${flows} on ${runtime.host}\n${metrics}`;
}

/** Describes who can authenticate; empty without authentication. */
function describeCallers({ adminAuth, identity }: Options): string {
  const users = adminAuth?.users.length ?? 0;
  return [
    ...(users === 0 ? [] : [`${users} configured ${users === 1 ? "user" : "users"}`]),
    ...(identity === undefined ? [] : ["workloads with a SPIFFE ID"]),
  ].join(" and ");
}
