import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { cliEnvironment } from "../cli/run-cli.ts";
import { deploy } from "../e2e/deploy.ts";
import { endpoint } from "../e2e/flow-builders.ts";
import { bearer } from "../e2e/rest.ts";
import { startService } from "../e2e/service.ts";
import { login, user } from "../e2e/users.ts";
import { escape } from "../../packages/runtime/test/flow-builders.ts";
import { type Build, buildPackages } from "./build.ts";
import { findProblems, last, parseDockerfile } from "./dockerfile-check.ts";
import { buildImage, isolated, readContext } from "./image.ts";
import { openStage, root } from "./stage.ts";

const text = readFileSync(join(root, "Dockerfile"), "utf8");
const context = readContext(root);

test("the Dockerfile passes the check", () => {
  expect(findProblems(text, context)).toEqual([]);
});

test("the image has the Node version of the tests", () => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    devDependencies: { node: string };
  };
  const [major, minor] = devDependencies.node.split(".");
  expect(parseDockerfile(text).map(({ from }) => from)).toEqual(Array(3).fill(`node:${major}.${minor}-bookworm-slim`));
});

test.each([
  [/FROM node:26\.10-/g, "FROM node:", "node:bookworm-slim is not pinned to a version"],
  [/FROM node:26\.10-bookworm-slim\nLABEL/, "FROM debian:12.9-slim\nLABEL", "debian:12.9-slim has no libatomic1"],
  ["COPY src src", "ADD https://example.com/src src", "ADD https://example.com/src src: it unpacks"],
  ["COPY src src", "COPY data data", "COPY data data: data is missing, or ignored"],
  ["--from=build", "--from=builder", "there is no stage builder"],
  ["USER 65532:65532", "USER node", "USER node: it must be the number"],
  ["USER 65532:65532", "USER 0:0", "USER 0:0: it must be the number"],
  [/USER .*\n/, "", "USER root: it must be the number"],
  ["ENV FLOWGATE_HOST", "ENV DB_PASSWORD=x FLOWGATE_HOST", "it would stay in the image"],
  [/ENTRYPOINT .*/, "ENTRYPOINT node main.js", "a shell would be process 1"],
  ["EXPOSE", "RUN chmod 777 /opt\nEXPOSE", "the service's user could change what comes after USER"],
])("the check detects %s changed to %s", (from, to, problem) => {
  const broken = text.replace(from, to);
  expect(broken).not.toBe(text);
  expect(findProblems(broken, context).join("\n")).toContain(problem);
});

let built: Build;
beforeAll(async () => {
  built = await buildPackages();
}, 600_000);

const mounts = { "/": "ro", "/var/lib/flowgate": "rw" };

/** The kernel's status of a process. */
function readLimits(pid: number) {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const valueOf = (key: string) =>
    [...new Set(new RegExp(`^${key}:\\t(.*)$`, "m").exec(status)?.[1]?.split("\t"))].join();
  const options = readFileSync(`/proc/${pid}/mounts`, "utf8").matchAll(/^\S+ (\S+) \S+ (r[ow])/gm);
  const byFolder = new Map([...options].map(([, folder, mode]) => [folder, mode]));
  return {
    users: valueOf("Uid"),
    groups: valueOf("Gid"),
    capabilities: Number(`0x${valueOf("CapBnd")}`),
    noNewPrivileges: valueOf("NoNewPrivs"),
    mounts: Object.fromEntries(Object.keys(mounts).map((folder) => [folder, byFolder.get(folder)])),
  };
}

test("the built image runs the service as its user, as process 1, and on a read-only root", async () => {
  await using stage = await openStage();
  const { checkout, dockerBuild } = built;
  const image = buildImage(checkout, stage.empty, { build: dockerBuild });
  if (!isolated) {
    process.stderr.write("This machine lets no process have a root of its own: the image runs without any limits.\n");
  }
  for (const absent of ["src", ".git", "opt/flowgate/src", "opt/flowgate/node_modules/typescript"]) {
    await expect(stat(join(image.root, absent))).rejects.toThrow("ENOENT");
  }
  const config = { port: 0, runtime: { port: 0 }, adminAuth: { users: [user("admin", "*")] } };
  const configPath = join(image.root, image.env["FLOWGATE_CONFIG"] ?? "");
  mkdirSync(dirname(configPath), { recursive: true });
  writeFileSync(configPath, JSON.stringify(config));

  await using service = await startService({
    command: image.command,
    config,
    env: { ...image.env, FLOWGATE_HOST: "127.0.0.1" },
  });
  const authorization = bearer(await login(service, { username: "admin" }));
  await deploy(service, { flows: endpoint("/parent", `${escape} msg.payload = host.ppid`) }, "full", authorization);
  const parent = await service.get("/parent", authorization);
  const [pid = service.pid] = isolated ? await service.childPids() : [];
  const limits = { parent: "1", users: "65532", groups: "65532", capabilities: 0, noNewPrivileges: "1", mounts };
  expect(isolated ? { parent, ...readLimits(pid) } : limits).toEqual(limits);
  for (const page of ["/docs/start.js", "/docs/swagger-ui-bundle.js"]) {
    expect((await service.send("GET", page)).status).toBe(200);
  }

  const program = join(image.root, "opt/flowgate/dist/src/cli/main.js");
  const whoami = [program, "whoami", "--server", service.url];
  const { stdout } = await promisify(execFile)(process.execPath, whoami, {
    env: cliEnvironment({ FLOWGATE_TOKEN: await login(service, { username: "admin" }) }),
  });
  expect(stdout).toContain("admin");

  const health = JSON.parse((last(image.stage, "HEALTHCHECK") ?? "").replace(/^.*?CMD /, "")) as string[];
  const ask = (dataDir: string) =>
    promisify(execFile)(process.execPath, health.slice(1), { env: { FLOWGATE_DATA_DIR: dataDir } });
  await ask(isolated ? join(image.root, image.env["FLOWGATE_DATA_DIR"] ?? "") : service.dataDir);
  await expect(ask(stage.empty)).rejects.toMatchObject({ code: 1 });

  // A signal to unshare does not stop the service.
  if (isolated) {
    process.kill(pid, "SIGTERM");
  }
  expect(await service.stop()).toBe(0);
});
