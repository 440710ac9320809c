import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { deploy } from "./deploy.ts";
import { functionNode, tab } from "./flow-builders.ts";
import { isMissing } from "./program.ts";
import { eventually, isRunning, startService } from "./service.ts";

/** A flow that leaves its vm, and does all that it can to survive the service. */
const surviving = (then: string) => [
  tab("T"),
  functionNode("f", {
    z: "T",
    initialize: `const host = util.inspect.constructor("return process")();
      const fs = host.getBuiltinModule("fs");
      const attempt = (change) => { try { change(); } catch (error) { node.warn(error.message); } };
      for (const name of ["setegid", "setgid", "seteuid", "setuid"]) attempt(() => host[name](65534));
      host.kill = () => true;
      host.exit = () => {};
      host.reallyExit = () => {};
      host.removeAllListeners();
      // Writing to the service fails from its end on.
      host.on("uncaughtException", () => {});
      for (const handle of host._getActiveHandles()) attempt(() => handle.removeAllListeners());
      // The pipe whose end shows that the service has exited.
      attempt(() => fs.closeSync(4));
      setTimeout(() => {
        node.warn("the flow is on its own");
        setTimeout(() => { ${then} }, 50);
      }, 100);`,
  }),
];

const hasDeathSignal = spawnSync("setpriv", ["--pdeathsig", "KILL", "true"]).status === 0;

describe.runIf(process.platform === "linux")("after kill -9 of the service", () => {
  test.skipIf(isMissing("the parent-death signal (setpriv)", hasDeathSignal))(
    "its runtime has exited, whatever a flow has done against it",
    async () => {
      await using service = await startService();
      await deploy(service, { flows: surviving("for (;;);") });
      await service.untilLogged(/the flow is on its own/);
      const [pid = 0] = await service.childPids();
      await service.kill9();
      await eventually(async () => expect(await isRunning(pid)).toBe(false), 10_000);
    },
  );

  test("without a parent-death signal, the next start ends a runtime that has survived", async () => {
    await using service = await startService({ env: { PATH: "/nonexistent" } });
    expect(service.log()).toMatch(
      /setpriv of util-linux is missing or can't start programs; a hostile flow can keep running/,
    );
    await deploy(service, { flows: surviving("") });
    await service.untilLogged(/the flow is on its own/);
    const [pid = 0] = await service.childPids();
    await service.kill9();
    expect(await isRunning(pid)).toBe(true);
    await using next = await startService({ dataDir: service.dataDir });
    expect(await isRunning(pid)).toBe(false);
    await next.untilLogged(
      new RegExp(`"pid":${pid},.*a flow runtime process of an earlier run of the service is still running`),
    );
    await next.kill9();
  });
});
