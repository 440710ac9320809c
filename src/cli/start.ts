import type { Options } from "../options.ts";
import { explainStartFailure } from "./start-failure.ts";
import { untilSignal } from "./until-signal.ts";

/** What the command needs of a gateway. */
export interface RunningGateway extends AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
}

/** Runs a gateway until SIGTERM or SIGINT, and then stops it in order. */
export async function start(options: Options, open: (options: Options) => Promise<RunningGateway>): Promise<void> {
  // Before it opens: a signal while it does is not lost, and nothing is left half open.
  const signal = untilSignal();
  // By default this signal opens a debugger, through which any process of this user runs code in this one.
  process.on("SIGUSR1", () => {});
  await using gateway = await open(options).catch((error: unknown) => {
    throw explainStartFailure(error, options);
  });
  process.stdout.write(describeStart(gateway.url, options));
  await signal;
}

function describeStart(url: string, { adminAuth, runtime }: Options): string {
  const authentication =
    adminAuth === undefined
      ? "off: everyone who reaches this port may do everything (set adminAuth to change that)"
      : `on, for ${adminAuth.users.length} configured ${adminAuth.users.length === 1 ? "user" : "users"}`;
  const flows = runtime.port === 0 ? "a free port (see GET /settings)" : `port ${runtime.port}`;
  return `Flowgate listens on ${url}\nAuthentication: ${authentication}\nHTTP-in nodes of the flows: ${flows} on ${runtime.host}\n`;
}
