import { spawnSync } from "node:child_process";
import { chmod, chown, mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { expect, test } from "vitest";
import { mainPath } from "../cli/run-cli.ts";
import { escape } from "../../packages/runtime/test/flow-builders.ts";
import { deploy } from "./deploy.ts";
import { endpoint } from "./flow-builders.ts";
import { isMissing } from "./program.ts";
import { type Service, startService } from "./service.ts";

const user = 65_534;
const asUser = [
  `--reuid=${user}`,
  `--regid=${user}`,
  "--clear-groups",
  "--no-new-privs",
  "--bounding-set=-all",
  "--inh-caps=-all",
];
const namespaces = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"];
const canIsolate =
  process.geteuid?.() === 0 && spawnSync("setpriv", [...asUser, "--", "bwrap", ...namespaces]).status === 0;
const isSkipped = isMissing("a service without root, which need root and bubblewrap with user namespaces,", canIsolate);

/** A service of a user without privileges, whose flow runs the shell commands of a request. */
async function startAsUser(isolate: "required" | "off"): Promise<Service> {
  const service = await startService({
    command: ["setpriv", ...asUser, "--", process.execPath, mainPath],
    config: { runtime: { isolate, allow: { childProcess: true } } },
    env: { SERVICE_SECRET: "secret of the service" },
    async prepare(dataDir) {
      await chmod(dirname(dataDir), 0o755);
      await mkdir(dataDir, { mode: 0o700 });
      await chown(dataDir, user, user);
    },
  });
  const run = `${escape} const { spawnSync } = host.getBuiltinModule("child_process");
    const { stdout, stderr } = spawnSync("/bin/sh", ["-c", msg.req.query.run], { encoding: "latin1" });
    msg.payload = stdout + stderr;`;
  await deploy(service, { flows: endpoint("/run", run) });
  return service;
}

const attack = ({ pid, dataDir }: Service): string =>
  `/run?run=${encodeURIComponent(`cat ${dataDir}/credential.key; cat ${dataDir}/*.db; cat /proc/${pid}/environ; id -u`)}`;

test.skipIf(isSkipped)("a service without root isolates flows that may start processes by namespaces", async () => {
  await using service = await startAsUser("required");
  const { runtime } = (await service.send("GET", "/settings")).json() as { runtime: { isolation: object } };
  expect(runtime.isolation).toEqual({ level: "namespaces" });
  expect(service.log()).toContain("the flow runtime is isolated by namespaces");
  const output = await service.get(attack(service));
  expect(output.match(/No such file or directory/g)).toHaveLength(3);
  expect(output).toMatch(new RegExp(`^${user}$`, "m"));
});

test.skipIf(isSkipped)("without isolation, they read the files and the environment of the service", async () => {
  await using service = await startAsUser("off");
  const output = await service.get(attack(service));
  expect(output).not.toMatch(/No such file or directory|Permission denied/);
  expect(output).toContain("SQLite format 3");
  expect(output).toContain("secret of the service");
});
