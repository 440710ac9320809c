// A process that starts a stub gateway, which opens on command and stops at once, never, or when it is signalled again.
import { once } from "node:events";
import { setImmediate } from "node:timers/promises";
import { CliFailure } from "@flowgate/cli";
import { start } from "../../src/cli/serve.ts";
import { parseOptions } from "../../src/options/parse.ts";

const mode = process.argv[2];
/** Replaces the clock of signals: the time since the one before. */
const signalIntervalMs = Number(process.argv[3]);
// Keeps the process alive, like a server.
const alive = setInterval(() => {}, 60_000);

try {
  const options = parseOptions({ runtime: { port: 0 }, drain: { delayMs: 7 } });
  const open = async () => {
    if (mode === "fails") {
      throw Object.assign(new Error("listen EADDRINUSE"), { code: "EADDRINUSE", address: "::1", port: 8080 });
    }
    return {
      url: "http://127.0.0.1:8080",
      consoleUrl: "http://127.0.0.1:8080/console",
      docsUrl: "http://127.0.0.1:8080/docs",
      socketPath: "data/flowgate.sock",
      metricsUrl: undefined,
      nodeRedUrl: undefined,
      reloadCertificates: async () => {},
      reloadUsers: async () => {},
      async drain(delayMs: number) {
        process.stdout.write(`stopping in ${delayMs} ms\n`);
        if (mode === "hangs") {
          await new Promise(() => {});
        } else if (mode === "stops later") {
          await once(process, "SIGINT");
          // Its other listeners are called after this one.
          await setImmediate();
        }
        clearInterval(alive);
      },
      async [Symbol.asyncDispose]() {},
    };
  };
  let nowMs = 0;
  const clock = (): number => (nowMs += signalIntervalMs);
  await start(
    options,
    { openFlowgate: open, exit: (code) => process.exit(code) },
    { read: async () => options, watch: undefined },
    clock,
  );
} catch (error) {
  if (!(error instanceof CliFailure)) {
    throw error;
  }
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.exitCode;
  clearInterval(alive);
}
