// A process that starts a stub gateway, which opens on command and stops at once or never.
import { CliFailure } from "../../src/cli/failure.ts";
import { start } from "../../src/cli/service/start.ts";
import { parseOptions } from "../../src/options/parse.ts";

const mode = process.argv[2];
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
      docsUrl: "http://127.0.0.1:8080/docs",
      socketPath: "data/flowgate.sock",
      metricsUrl: undefined,
      reloadCertificates: async () => {},
      reloadUsers: async () => {},
      async drain(delayMs: number) {
        process.stdout.write(`stopping in ${delayMs} ms\n`);
        if (mode === "hangs") {
          await new Promise(() => {});
        }
        clearInterval(alive);
      },
      async [Symbol.asyncDispose]() {},
    };
  };
  await start(options, open, { read: async () => options, watch: undefined });
} catch (error) {
  if (!(error instanceof CliFailure)) {
    throw error;
  }
  process.stderr.write(`${error.message}\n`);
  process.exitCode = error.exitCode;
  clearInterval(alive);
}
