// A process that migrates a store, until it is interrupted.
import { once } from "node:events";
import { runCommandLine } from "../../src/cli/run.ts";

const unused = (): never => {
  throw new Error("only migrate is expected");
};

await runCommandLine({
  version: unused,
  openGateway: unused,
  copyStore: unused,
  verifyAudit: unused,
  async migrateStore({ signal }) {
    // Keeps the process alive, like a connection.
    const alive = setInterval(() => {}, 60_000);
    process.stdout.write("copying");
    await once(signal ?? unused(), "abort");
    clearInterval(alive);
    throw signal?.reason;
  },
});
