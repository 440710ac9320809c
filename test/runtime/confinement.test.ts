import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { type OpenedRuntime, revision, runtimeUnderTest, untilGone } from "./builders.ts";
import { endpoint, escape } from "./flow-builders.ts";

describe("by default a flow", () => {
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    vi.stubEnv("FLOWGATE_TEST_SECRET", "secret of the parent");
    runtime = await runtimeUnderTest();
    await writeFile(`${runtime.dataDir}/key`, "secret");
    await writeFile(`${runtime.dataDir}/runtime-key`, "secret");
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await runtime[Symbol.asyncDispose]();
  });

  /** What an expression comes to inside of a flow: its value as JSON, or the code of its error. */
  async function outcome(expression: string): Promise<unknown> {
    const code = `${escape} const load = (name) => host.getBuiltinModule(name);
      try { msg.payload = { value: ${expression} }; } catch (error) { msg.payload = { code: error.code }; }`;
    seq += 1;
    await runtime.apply(revision(seq, endpoint("/try", code)), "full");
    return JSON.parse(await runtime.get("/try"));
  }

  const denied = { code: "ERR_ACCESS_DENIED" };

  test("can't read what lies beside its directory", async () => {
    expect(await outcome(`load("fs").readFileSync("../key", "utf8")`)).toEqual(denied);
    expect(await outcome(`load("fs").readFileSync("../runtime-key", "utf8")`)).toEqual(denied);
    expect(await outcome(`load("fs").readdirSync("..")`)).toEqual(denied);
  });

  test("can't read a secret through a link of its own", async () => {
    expect(await outcome(`load("fs").symlinkSync("../key", "link")`)).toEqual(denied);
    expect(await outcome(`load("fs").linkSync("../key", "link")`)).toEqual(denied);
  });

  test("can't read the environment of the parent", async () => {
    expect(await outcome(`load("fs").readFileSync("/proc/" + load("process").ppid + "/environ", "utf8")`)).toEqual(
      denied,
    );
    expect(await outcome(`Object.values(load("process").env).join().includes("secret of the parent")`)).toEqual({
      value: false,
    });
    expect(await outcome(`load("process").env.HOME === load("process").cwd()`)).toEqual({ value: true });
  });

  test("can't write outside of its directory", async () => {
    expect(await outcome(`load("fs").writeFileSync("../key", "changed")`)).toEqual(denied);
    expect(await outcome(`load("fs").writeFileSync("/tmp/flowgate-test-escape", "")`)).toEqual(denied);
  });

  test("can't start processes, threads or native code", async () => {
    expect(await outcome(`load("child_process").execSync("true")`)).toEqual(denied);
    expect(await outcome(`new (load("worker_threads").Worker)("1", { eval: true }) && 1`)).toEqual(denied);
    expect(await outcome(`load("process").dlopen({ exports: {} }, "./x.node")`)).toEqual({
      code: "ERR_DLOPEN_DISABLED",
    });
  });

  test("can read and write in its directory", async () => {
    expect(await outcome(`load("fs").writeFileSync("mine", "x") ?? load("fs").readFileSync("mine", "utf8")`)).toEqual({
      value: "x",
    });
  });
});

test("a flow may do what is allowed by name", async () => {
  vi.stubEnv("FLOWGATE_TEST_SHARED", "shared");
  await using runtime = await runtimeUnderTest({
    allow: { childProcess: true, worker: true, env: ["FLOWGATE_TEST_SHARED"], fileSystemRead: ["/proc"] },
  });
  vi.unstubAllEnvs();
  const code = `${escape} const load = (name) => host.getBuiltinModule(name);
    new (load("worker_threads").Worker)("1", { eval: true });
    load("fs").readFileSync("/proc/self/status");
    msg.payload = load("child_process").execSync("echo $FLOWGATE_TEST_SHARED").toString();`;
  await runtime.apply(revision(1, endpoint("/try", code)), "full");
  expect(await runtime.get("/try")).toBe("shared\n");
});

test("what a flow spawns ends with the child", async () => {
  const runtime = await runtimeUnderTest({ allow: { childProcess: true } });
  const code = `${escape} msg.payload = "" + host.getBuiltinModule("child_process").spawn("sleep", ["600"]).pid;`;
  await runtime.apply(revision(1, endpoint("/spawn", code)), "full");
  const pid = Number(await runtime.get("/spawn"));
  expect(process.kill(pid, 0)).toBe(true);
  await runtime[Symbol.asyncDispose]();
  expect(await untilGone(pid)).toBe(true);
});

test("a flow that writes into the channel harms nobody", async () => {
  await using runtime = await runtimeUnderTest();
  const junk = [
    null,
    7,
    [],
    {},
    { kind: "log" },
    { kind: "log", entry: { level: "loud", message: {} } },
    { kind: "deployed" },
  ];
  const code = `${escape} for (const value of ${JSON.stringify(junk)}) host.send(value);
    msg.payload = "sent";`;
  await runtime.apply(revision(1, endpoint("/junk", code)), "full");
  expect(await runtime.get("/junk")).toBe("sent");
  await runtime.apply(revision(2, []), "full");
  expect(runtime.status().state).toBe("running");
});
