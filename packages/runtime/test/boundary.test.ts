import { execFileSync, spawnSync } from "node:child_process";
import { chmod, lstat, mkdir, readFile, readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeAll, afterAll, describe, expect, test, vi } from "vitest";
import { mountArguments } from "../src/boundary-mounts.ts";
import { type RuntimeOptions, runtimeDefaults } from "../src/options.ts";
import { createFolder } from "../../../test/store/builders.ts";
import { type OpenedRuntime, fixture, revision, runtimeUnderTest } from "./builders.ts";
import { endpoint, escape } from "./flow-builders.ts";
import { needs } from "../../../test/needs.ts";

const isRoot = process.geteuid?.() === 0;
const canIsolate = spawnSync("bwrap", ["--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]).status === 0;
const needsRoot = needs("root", isRoot);
const needsNamespaces = needs("bubblewrap with the right to create namespaces", canIsolate);

/** A runtime whose flow runs the shell commands of a request. */
async function shellUnderTest(options: Partial<RuntimeOptions> = {}): Promise<OpenedRuntime> {
  const runtime = await runtimeUnderTest({ allow: { childProcess: true }, ...options }, async (dir) => {
    await writeFile(join(dir, "..", "credential.key"), "secret of the service", { mode: 0o600 });
  });
  const run = `${escape} const { spawnSync } = host.getBuiltinModule("child_process");
    const { stdout, stderr } = spawnSync("/bin/sh", ["-c", msg.req.query.run], { encoding: "utf8" });
    msg.payload = stdout + stderr;`;
  await runtime.apply(revision(1, endpoint("/run", run)), "full");
  return runtime;
}

const run = (runtime: OpenedRuntime, command: string): Promise<string> =>
  runtime.get(`/run?run=${encodeURIComponent(command)}`);

/** The processes of the machine with this text in their command. */
async function processesWith(text: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const commands = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "")));
  return pids.filter((_, at) => commands[at]?.split("\0").includes(text));
}

afterEach(() => vi.unstubAllEnvs());

describe("a flow that may start processes, in namespaces,", needsNamespaces, () => {
  let runtime: OpenedRuntime;
  beforeAll(async () => {
    vi.stubEnv("FLOWGATE_TEST_SECRET", "secret of the parent");
    runtime = await shellUnderTest();
  });
  afterAll(() => runtime[Symbol.asyncDispose]());

  test("is reported", () => {
    expect(runtime.status().boundary).toMatchObject({ level: "namespaces", message: undefined });
    expect(runtime.ownMessages).toContainEqual(expect.stringMatching(/^the flow runtime is isolated by namespaces/));
  });

  test("does not see the files of the service", async () => {
    expect(await run(runtime, `ls ${runtime.dataDir}`)).toBe("modules\nruntime\n");
    expect(await run(runtime, `cat ${runtime.dataDir}/credential.key`)).toMatch(/No such file/);
    expect(await run(runtime, `cat ../credential.key`)).toMatch(/No such file/);
    expect(await run(runtime, `ls /tmp`)).not.toContain("vitest");
    expect(await run(runtime, `ls /root /home 2>&1`)).toMatch(/No such file/);
  });

  test("sees neither the service nor its environment", async () => {
    const status = await run(runtime, `cat /proc/${process.pid}/environ; kill -9 ${process.pid}; ls /proc`);
    expect(status).not.toContain("secret of the parent");
    expect(status).toMatch(/no such process/i);
    expect(status).not.toMatch(new RegExp(`^${process.pid}$`, "m"));
    expect(await run(runtime, "cat /proc/*/environ")).not.toContain("secret of the parent");
  });

  test("has no privileges, and can't get any", async () => {
    const status = await run(runtime, "cat /proc/self/status");
    expect(status.match(/^Cap\w+:\t0+$/gm)).toHaveLength(5);
    expect(status).toMatch(/^NoNewPrivs:\t1$/m);
    expect(await run(runtime, "setpriv --reuid 12345 id")).toMatch(/Operation not permitted|Invalid argument/);
    expect(await run(runtime, "mount -t tmpfs none /mnt 2>&1; umount /tmp 2>&1")).not.toBe("");
    expect(await run(runtime, "unshare --user --map-root-user --mount umount /tmp 2>&1")).not.toBe("");
  });

  test("can write to its directory and to /tmp only, which is its own", async () => {
    expect(await run(runtime, "touch mine /tmp/mine && ls mine /tmp/mine")).toBe("/tmp/mine\nmine\n");
    expect(await lstat("/tmp/mine").catch(() => undefined)).toBeUndefined();
    for (const path of ["/", "/etc", "/usr", "/dev", runtime.dataDir]) {
      expect(await run(runtime, `touch ${path}/flowgate-test`)).toMatch(/Read-only file system|Permission denied/);
    }
  });

  test("leaves no process behind when the runtime process is replaced", async () => {
    await run(runtime, "setsid sleep 471147 >/dev/null 2>&1 &");
    expect(await processesWith("471147")).toHaveLength(1);
    await runtime.restart(revision(2, []));
    expect(await processesWith("471147")).toEqual([]);
  });
});

test("isolated flows have the limits of runtime.limits", needsNamespaces, async () => {
  await using runtime = await shellUnderTest({ limits: { processes: 64, openFiles: 300, fileSizeMb: 1 } });
  expect(await run(runtime, "ulimit -n; ulimit -f; ulimit -c")).toBe("300\n2048\n0\n");
  expect(await run(runtime, "head -c 2000000 /dev/zero > large; wc -c < large")).toMatch(/^1048576$/m);
  const before = await processesWith("471148");
  // Each line starts one process. The shell ends when it can't start more.
  const output = await run(runtime, "for i in $(seq 100); do sleep 471148 >/dev/null 2>&1 & done");
  expect(output).toMatch(/fork/i);
  const started = await processesWith("471148");
  expect(started.length).toBeGreaterThan(before.length);
  expect(started.length).toBeLessThan(64);
});

test("flows of a service that is root run as another user", isRoot ? needsNamespaces : needsRoot, async () => {
  await using runtime = await shellUnderTest({ user: 54_321 });
  expect(runtime.status().boundary).toMatchObject({ level: "namespaces", user: 54_321 });
  expect(await run(runtime, "id")).toBe("uid=54321 gid=54321 groups=54321\n");
  const dir = join(runtime.dataDir, "runtime");
  expect((await lstat(dir)).uid).toBe(54_321);
  await using _ = await runtimeUnderTest({ dir, isolate: "off", entry: fixture("ready") });
  expect((await lstat(dir)).uid).toBe(0);
});

test(
  "flows that need files of the service's user run as this user, in namespaces",
  isRoot ? needsNamespaces : needsRoot,
  async () => {
    await using folder = await createFolder();
    await using runtime = await shellUnderTest({ allow: { childProcess: true, fileSystemWrite: [folder.path] } });
    expect(runtime.status().boundary).toMatchObject({ level: "namespaces", user: undefined });
    expect(await run(runtime, `touch ${folder.path}/mine && ls ${folder.path}`)).toBe("mine\n");
  },
);

/** A PATH with these programs only. */
async function pathWith(folder: string, programs: readonly string[]): Promise<string> {
  for (const program of programs) {
    await symlink(execFileSync("which", [program], { encoding: "utf8" }).trim(), join(folder, program));
  }
  await chmod(folder, 0o755);
  return folder;
}

test("without bubblewrap, flows of a service that is root run as another user", needsRoot, async () => {
  await using programs = await createFolder();
  await using data = await createFolder();
  const dir = join(data.path, "runtime");
  vi.stubEnv("PATH", await pathWith(programs.path, ["setpriv", "prlimit"]));
  await using runtime = await runtimeUnderTest({
    dir,
    modulesDir: join(data.path, "modules"),
    hidden: [data.path],
    isolate: "required",
    allow: { childProcess: true },
    active: async () =>
      revision(
        1,
        endpoint(
          "/run",
          `${escape} const { spawnSync } = host.getBuiltinModule("child_process");
           msg.payload = spawnSync("/bin/sh", ["-c", msg.req.query.run], { encoding: "utf8" }).stdout;`,
        ),
      ),
  });
  await runtime.untilState("running");
  expect(runtime.status().boundary).toMatchObject({
    level: "user",
    user: 65_531,
    message: "bubblewrap (bwrap) is not installed",
  });
  await writeFile(join(data.path, "credential.key"), "secret", { mode: 0o600 });
  const seen = await run(
    runtime,
    `PATH=/bin:/usr/bin; id -u; cat ../credential.key 2>&1; cat /proc/${process.pid}/environ 2>&1; kill -9 ${process.pid} 2>&1; grep CapBnd /proc/self/status; ls .. 2>&1`,
  );
  expect(seen).toMatch(
    /^65531\n.*Permission denied\n.*Permission denied\n.*not permitted\n+CapBnd:\t0+\n.*Permission denied/is,
  );
});

describe("without the programs that it needs", () => {
  test("a boundary that is required keeps the service from starting", async () => {
    vi.stubEnv("PATH", "/nonexistent");
    await expect(runtimeUnderTest({ isolate: "required" })).rejects.toThrow(
      /^runtime.isolate is "required", but flows can't be isolated here: bubblewrap \(bwrap\) is not installed; setpriv/,
    );
  });

  test("flows run all the same by default, and the log says what is missing", async () => {
    vi.stubEnv("PATH", "/nonexistent");
    await using runtime = await runtimeUnderTest({ entry: fixture("ready") });
    expect(runtime.status().boundary).toMatchObject({ level: "none" });
    await runtime.untilLogged(/^the flow runtime is not isolated by the operating system: bubblewrap/);
    await runtime.untilState("running");
  });
});

test("a boundary can be switched off", async () => {
  await using runtime = await runtimeUnderTest({ isolate: "off", entry: fixture("ready") });
  expect(runtime.status().boundary).toMatchObject({ level: "none", message: "runtime.isolate is off" });
});

describe("the files of isolated flows", () => {
  const options = {
    dir: "/data/runtime",
    codeCacheDir: undefined as string | undefined,
    hidden: [] as string[],
    entry: new URL(import.meta.url),
    allow: { ...runtimeDefaults.allow, fileSystemRead: [] as string[] },
  };
  const mountsOf = (changes: Partial<typeof options>): string => mountArguments({ ...options, ...changes }).join(" ");

  test("include their directory and what they may read", () => {
    const allow = { ...options.allow, fileSystemRead: ["/data/modules"] };
    expect(mountsOf({ allow })).toContain("--dev-bind-try /data/runtime /data/runtime");
    expect(mountsOf({ allow })).toContain("--ro-bind-try /data/modules /data/modules");
  });

  test("never include the processes of the machine", () => {
    const allow = { ...options.allow, fileSystemRead: ["/proc", "/proc/1"] };
    expect(mountsOf({ allow })).not.toMatch(/bind-try \/proc/);
  });

  test("do not include hidden ones that are below allowed ones", async () => {
    await using folder = await createFolder();
    await mkdir(join(folder.path, "data"));
    await symlink(folder.path, join(folder.path, "link"));
    const allow = { ...options.allow, fileSystemRead: [folder.path, join(folder.path, "link")] };
    const mounts = mountsOf({ allow, hidden: [join(folder.path, "data")] });
    expect(mounts).toContain(`--tmpfs ${join(folder.path, "data")}`);
    expect(mounts).toContain(`--tmpfs ${join(folder.path, "link", "data")}`);
  });
});
