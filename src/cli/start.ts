import type { Options } from "../options/parse.ts";
import { explainStartFailure } from "./start-failure.ts";
import { untilSignal } from "./until-signal.ts";

/** What the command needs of a gateway. */
export interface RunningGateway extends AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
  /** The page that describes the API, if there is one. */
  readonly docsUrl: string | undefined;
  /** Where the metrics are, if they have a port of their own. */
  readonly metricsUrl: string | undefined;
  reloadCertificates(): Promise<void>;
  drain(delayMs: number): Promise<void>;
}

/** Runs a gateway until SIGTERM or SIGINT, and then drains it. */
export async function start(options: Options, open: (options: Options) => Promise<RunningGateway>): Promise<void> {
  // Before it opens: a signal while it does is not lost, and nothing is left half open.
  const signal = untilSignal();
  // By default this signal opens a debugger, through which any process of this user runs code in this one.
  process.on("SIGUSR1", () => {});
  // Without a listener this one would end the process at once. What opens reads the files anyway.
  let reload = async (): Promise<void> => {};
  process.on("SIGHUP", () => void reload());
  await using gateway = await open(options).catch((error: unknown) => {
    throw explainStartFailure(error, options);
  });
  reload = () => gateway.reloadCertificates();
  process.stdout.write(describeStart(gateway, options));
  // Whoever presses Ctrl-C does not want to wait for load balancers.
  await gateway.drain((await signal) === "SIGTERM" ? options.drain.delayMs : 0);
}

function describeStart({ url, docsUrl, metricsUrl }: RunningGateway, options: Options): string {
  const { runtime } = options;
  const known = describeKnown(options);
  const authentication =
    known === ""
      ? "off: everyone who reaches this port may do everything (set adminAuth to change that)"
      : `on, for ${known}`;
  const flows = runtime.port === 0 ? "a free port (see GET /settings)" : `port ${runtime.port}`;
  const metrics = metricsUrl === undefined ? "" : `Metrics, for everyone who reaches them: ${metricsUrl}\n`;
  const docs = docsUrl === undefined ? "" : `Documentation of the API: ${docsUrl}\n`;
  return `Flowgate listens on ${url}\n${docs}Authentication: ${authentication}\nHTTP-in nodes of the flows: ${flows} on ${runtime.host}\n${metrics}`;
}

/** Who may come in; empty where everyone may. */
function describeKnown({ adminAuth, identity }: Options): string {
  const users = adminAuth?.users.length ?? 0;
  return [
    ...(users === 0 ? [] : [`${users} configured ${users === 1 ? "user" : "users"}`]),
    ...(identity === undefined ? [] : ["workloads with a SPIFFE ID"]),
  ].join(" and ");
}
