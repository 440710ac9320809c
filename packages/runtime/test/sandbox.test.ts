import { once } from "node:events";
import { mkdir, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { FlowNode } from "@flowgate/flows";
import { messageFd } from "../src/messages.ts";
import type { Revision } from "../src/revision.ts";
import { type OpenedRuntime, revision, runtimeUnderTest, untilExited } from "./builders.ts";
import { createFolder } from "../../../test/store/builders.ts";
import { endpoint, escape, exec, functionNode, injectOnce, onTab, tab } from "./flow-builders.ts";

describe("by default a flow", () => {
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    vi.stubEnv("FLOWGATE_TEST_SECRET", "secret of the parent");
    runtime = await runtimeUnderTest({ freshProcess: "never" });
    await writeFile(`${runtime.dataDir}/key`, "secret");
    await writeFile(`${runtime.dataDir}/runtime-key`, "secret");
  });
  afterAll(async () => {
    vi.unstubAllEnvs();
    await runtime[Symbol.asyncDispose]();
  });

  /** Evaluates an expression in a flow; returns its value as JSON, or the code of its error. */
  async function outcome(expression: string): Promise<unknown> {
    const code = `${escape} const load = (name) => host.getBuiltinModule(name);
      try { msg.payload = { value: ${expression} }; } catch (error) { msg.payload = { code: error.code }; }`;
    seq += 1;
    await runtime.apply(revision(seq, endpoint("/try", code)), "full");
    return JSON.parse(await runtime.get("/try"));
  }

  const denied = { code: "ERR_ACCESS_DENIED" };

  test("can't read files outside of its directory", async () => {
    expect(await outcome(`load("fs").readFileSync("../key", "utf8")`)).toEqual(denied);
    expect(await outcome(`load("fs").readFileSync("../runtime-key", "utf8")`)).toEqual(denied);
    expect(await outcome(`load("fs").readdirSync("..")`)).toEqual(denied);
  });

  test.each([
    [`load("fs").readFileSync("../key")`, "The option runtime.allow.fileSystemRead permits it."],
    [`load("fs").writeFileSync("../key", "")`, "The option runtime.allow.fileSystemWrite permits it."],
    [`load("child_process").spawn("true")`, "The option runtime.allow.childProcess permits it."],
    [`new (load("worker_threads").Worker)("1", { eval: true })`, "The option runtime.allow.worker permits it."],
    [`new (load("inspector").Session)().connect()`, "No option of the service permits it."],
  ])("may not evaluate %s, and the log names the option that permits it", async (expression, advice) => {
    const setupNode = (name: string, code: string) =>
      functionNode(name, {
        z: "T",
        initialize: `${escape} const load = (name) => host.getBuiltinModule(name); ${code}`,
      });
    seq += 1;
    const id = `denied-${seq}`;
    const reported = setupNode(
      id,
      `try { ${expression} } catch (error) { node.error("${id} logged " + error.message) }`,
    );
    const printed = setupNode(
      `${id}-printed`,
      `try { ${expression} } catch (error) { console.log("${id} printed " + error) }`,
    );
    await runtime.apply(revision(seq, [tab("T"), reported, printed]), "full");
    for (const how of ["logged", "printed"]) {
      const { message } = await runtime.untilLogged(new RegExp(`${id} ${how}`));
      expect(message).toContain(advice);
      expect(message).not.toContain("--allow");
    }
  });

  test("can't read a file through a link that it creates", async () => {
    expect(await outcome(`load("fs").symlinkSync("../key", "link")`)).toEqual(denied);
    expect(await outcome(`load("fs").linkSync("../key", "link")`)).toEqual(denied);
  });

  test("can't move or copy a link, which would lead elsewhere then", async () => {
    const cwd = `${runtime.dataDir}/runtime`;
    await mkdir(`${cwd}/one/two`, { recursive: true });
    await symlink("../../key", `${cwd}/one/two/link`);
    await writeFile(`${cwd}/plain`, "plain");
    // Where it is, the link leads to a file in the directory.
    await writeFile(`${cwd}/key`, "own");
    expect(await outcome(`load("fs").readFileSync("one/two/link", "utf8")`)).toEqual({ value: "own" });
    for (const [from, to] of [
      ["one/two/link", "one/link"],
      ["one/two", "two"],
      ["one", "three"],
    ]) {
      expect(await outcome(`load("fs").renameSync("${from}", "${to}")`)).toEqual(denied);
      expect(
        await outcome(`load("fs").cpSync("${from}", "${to}", { recursive: true, verbatimSymlinks: true })`),
      ).toEqual(denied);
    }
    expect(await outcome(`load("fs").renameSync(Buffer.from("one/two"), "two")`)).toEqual(denied);
    expect(await outcome(`load("fs").linkSync("one/two/link", "link")`)).toEqual(denied);
    for (const rename of [
      `load("fs").rename("one/two", "two", done)`,
      `load("fs").promises.rename("one/two", "two").catch(done)`,
      `load("fs").promises.link("one/two/link", "link").catch(done)`,
      `load("fs/promises").cp("one/two", "two", { recursive: true, verbatimSymlinks: true }).catch(done)`,
    ]) {
      expect(
        await event(
          `{ once(name, listener) { const done = listener; if (name === "error") ${rename}; return this; }, unref() {} }`,
          "none",
        ),
      ).toBe("ERR_ACCESS_DENIED");
    }
    expect(
      await outcome(`load("fs").renameSync("plain", "moved") ?? load("fs").readFileSync("moved", "utf8")`),
    ).toEqual({ value: "plain" });
  });

  test("can't move a link by deceiving the check", async () => {
    const cwd = `${runtime.dataDir}/runtime`;
    await mkdir(`${cwd}/here/deep`, { recursive: true });
    await mkdir(`${cwd}/there`);
    await writeFile(`${cwd}/there/link`, "plain");
    await symlink("../../key", `${cwd}/here/deep/link`);
    // The path of the directory is short enough for the system, but not that of the link in it.
    await outcome(`load("fs").renameSync("./".repeat(2043) + "here/deep", "deep")`);
    await outcome(`(() => {
      const Objects = host.constructor.constructor("return Object")();
      const { assign } = Objects;
      Objects.assign = () => undefined;
      try { load("fs").renameSync("here/deep", "deep"); } catch {} finally { Objects.assign = assign; }
    })()`);
    await outcome(`(() => {
      const cwd = host.cwd();
      const to = { protocol: "file:", hostname: "", pathname: cwd + "/link", get href() { host.chdir(cwd + "/here/deep"); return "file:"; } };
      host.chdir("there");
      try { load("fs").renameSync("link", to); } finally { host.chdir(cwd); }
    })()`);
    expect(await readlink(`${cwd}/here/deep/link`)).toBe("../../key");
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

  test("can't use modules that open files without Node's permission model", async () => {
    expect(await outcome(`typeof load("node:sqlite")`)).toEqual({ value: "undefined" });
    expect(await outcome(`typeof load("node:ffi")`)).toEqual({ value: "undefined" });
    expect(await outcome(`load("v8").setFlagsFromString("--redirect-code-traces-to=../trace")`)).toEqual(denied);
    expect(await outcome(`load("v8").writeHeapSnapshot("../heap")`)).toEqual(denied);
    expect(await outcome(`load("process").report.writeReport("../report")`)).toEqual(denied);
    expect(await outcome(`load("process").loadEnvFile("../key")`)).toEqual(denied);
    expect(await outcome(`load("process").chdir("..")`)).toEqual(denied);
    expect(await outcome(`load("process").binding("fs") && 1`)).toEqual(denied);
    expect(await outcome(`new (load("inspector").Session)().connect()`)).toEqual(denied);
    expect(await outcome(`load("inspector").open(0)`)).toEqual(denied);
    expect(await outcome(`new (load("wasi").WASI)({ version: "preview1", preopens: { "/": "/" } }) && 1`)).toEqual(
      denied,
    );
  });

  test("can't signal other processes, such as the parent", async () => {
    const notPermitted = { code: "EPERM" };
    expect(await outcome(`host.kill(host.ppid, 0)`)).toEqual(notPermitted);
    expect(await outcome(`host.kill(host.ppid, "SIGCONT")`)).toEqual(notPermitted);
    expect(await outcome(`host.kill(-host.ppid, 0)`)).toEqual(notPermitted);
    expect(await outcome(`host.kill(-1, 0)`)).toEqual(notPermitted);
    expect(await outcome(`host._kill({ valueOf: () => host.ppid }, 0)`)).toEqual({ value: -1 });
    expect(await outcome(`host._debugProcess(host.ppid)`)).toEqual(denied);
    expect(await outcome(`load("os").setPriority(host.ppid, 0)`)).toEqual(denied);
    expect(await outcome(`host.kill(host.pid, 0)`)).toEqual({ value: true });
  });

  /** Returns the code of the emitter's error, or `none` if the event is emitted first. */
  async function event(emitter: string, name: string): Promise<string> {
    const code = `${escape} const load = (name) => host.getBuiltinModule(name);
      const emitter = ${emitter};
      const respond = (payload) => { node.send({ ...msg, payload }); emitter.unref(); };
      emitter.once("error", ({ code }) => respond(code)).once("${name}", () => respond("none"));
      return null`;
    seq += 1;
    await runtime.apply(revision(seq, endpoint("/event", code)), "full");
    return runtime.get("/event");
  }

  test("can use Unix sockets in its directory only", async () => {
    const outside = `${runtime.dataDir}/socket`;
    await using server = createServer().listen(outside);
    await once(server, "listening");
    expect(await event(`load("net").connect(${JSON.stringify(outside)})`, "connect")).toBe("EACCES");
    expect(await event(`load("net").connect("../socket")`, "connect")).toBe("EACCES");
    expect(await event(`load("net").connect("\\0flowgate")`, "connect")).toBe("EACCES");
    const deceiving = `(() => {
      const text = host.constructor.constructor("return String.prototype")();
      const { includes } = text;
      const { cwd } = host;
      text.includes = () => false;
      host.cwd = () => "\\0";
      try { return load("net").connect("flowgate"); } finally { text.includes = includes; host.cwd = cwd; }
    })()`;
    expect(await event(deceiving, "connect")).toBe("EACCES");
    expect(await event(`load("net").createServer().listen("../other")`, "listening")).toBe("EACCES");
    expect(await event(`load("net").createServer().listen("mine.sock")`, "listening")).toBe("none");
    expect(await event(`load("net").connect("mine.sock")`, "connect")).toBe("none");
  });

  test("may not use file and exec nodes, and the log names the option that permits it", async () => {
    const file = { ...onTab("file"), type: "file in", filename: "/etc/hostname", filenameType: "str" };
    seq += 1;
    const flows = [tab("T"), injectOnce("i", "file"), file, injectOnce("j", "exec"), exec("exec", "true")];
    await runtime.apply(revision(seq, flows), "full");
    const messageOf = (type: string) => runtime.entries.find(({ nodeType }) => nodeType === type)?.message;
    await expect.poll(() => messageOf("file in")).toContain("The option runtime.allow.fileSystemRead permits it.");
    await expect.poll(() => messageOf("exec")).toContain("The option runtime.allow.childProcess permits it.");
  });

  test("has no Node IPC channel to the parent", async () => {
    expect(await outcome(`[typeof host.send, typeof host.channel, host.env.NODE_CHANNEL_FD ?? "none"]`)).toEqual({
      value: ["undefined", "undefined", "none"],
    });
  });

  test("can read and write in its directory", async () => {
    expect(await outcome(`load("fs").writeFileSync("mine", "x") ?? load("fs").readFileSync("mine", "utf8")`)).toEqual({
      value: "x",
    });
  });
});

test("flows do not run while their directory has a link to a directory outside, or to nothing outside", async () => {
  await using runtime = await runtimeUnderTest(
    { active: async () => revision(1, []), restart: { backoffMs: 1, maxBackoffMs: 1 }, safeMode: { exits: 1 } },
    async (_modulesDir, userDir) => {
      await mkdir(`${userDir}/inside`, { recursive: true });
      await symlink("inside", `${userDir}/to-inside`);
      await symlink("..", `${userDir}/to-outside`);
    },
  );
  const userDir = `${runtime.dataDir}/runtime`;
  await runtime.untilState("restarting");
  expect(runtime.status().message).toContain("the symbolic link to-outside in runtime.dir leads out of it: remove it");
  await symlink("../nothing", `${userDir}/to-nothing`);
  await rm(`${userDir}/to-outside`);
  await runtime.untilLogged(/the symbolic link to-nothing in runtime\.dir leads out of it: remove it/);
  await rm(`${userDir}/to-nothing`);
  await runtime.untilState("running");
});

describe("what the options allow", () => {
  let other: Awaited<ReturnType<typeof createFolder>>;
  let runtime: OpenedRuntime;
  beforeAll(async () => {
    other = await createFolder();
    vi.stubEnv("FLOWGATE_TEST_SHARED", "shared");
    const allow = {
      childProcess: true,
      worker: true,
      env: ["FLOWGATE_TEST_SHARED"],
      fileSystemRead: ["/proc"],
      fileSystemWrite: [other.path],
    };
    runtime = await runtimeUnderTest({ allow }, async (_modulesDir, userDir) => {
      await mkdir(userDir, { recursive: true });
      await symlink(other.path, `${userDir}/shared`);
    });
    vi.unstubAllEnvs();
  });
  afterAll(async () => {
    await runtime?.[Symbol.asyncDispose]();
    await other?.[Symbol.asyncDispose]();
  });

  test("a link leads to where flows may write", async () => {
    await runtime.untilState("running");
    expect(runtime.status().message).toBeUndefined();
  });

  test("flows start processes and threads, and read files and variables", async () => {
    const code = `${escape} const load = (name) => host.getBuiltinModule(name);
      new (load("worker_threads").Worker)("1", { eval: true });
      load("fs").readFileSync("/proc/self/status");
      msg.payload = load("child_process").execSync("echo $FLOWGATE_TEST_SHARED").toString();`;
    await runtime.apply(revision(1, endpoint("/try", code)), "nodes");
    expect(await runtime.get("/try")).toBe("shared\n");
  });

  test("the exec node runs", async () => {
    const flows = [
      tab("T"),
      injectOnce("i", "exec"),
      { ...exec("exec", "echo done in $BASH"), wires: [["f"], [], []] },
      functionNode("f", { z: "T", func: "node.warn(msg.payload)" }),
    ];
    await runtime.apply(revision(2, flows), "nodes");
    expect(await runtime.untilLogged(/done in \/bin\/bash/)).toMatchObject({ nodeId: "f" });
  });
});

test("processes that a flow spawned end with the child", async () => {
  // In namespaces, flows do not know the ids by which the test can find processes.
  const runtime = await runtimeUnderTest({ allow: { childProcess: true }, isolate: "off" });
  const code = `${escape} msg.payload = "" + host.getBuiltinModule("child_process").spawn("sleep", ["600"]).pid;`;
  await runtime.apply(revision(1, endpoint("/spawn", code)), "full");
  const pid = Number(await runtime.get("/spawn"));
  expect(process.kill(pid, 0)).toBe(true);
  await runtime[Symbol.asyncDispose]();
  expect(await untilExited(pid)).toBe(true);
});

test("messages that a flow floods the channel with are dropped beyond the budget", async () => {
  await using runtime = await runtimeUnderTest();
  const entry = (message: string) => JSON.stringify({ kind: "log", entry: { level: "info", message } });
  const crashed = JSON.stringify({ kind: "crashed", cause: `forged${"!".repeat(20_000)}` });
  const write = `${escape} const { writeSync } = host.getBuiltinModule("fs");
    const write = (lines) => {
      for (let rest = Buffer.from(lines.join("\\n") + "\\n"); rest.length > 0;) {
        try { rest = rest.subarray(writeSync(${messageFd}, rest)); }
        catch (error) { if (error.code !== "EAGAIN") throw error; }
      }
    };
    write(Array(20000).fill(${JSON.stringify(entry("again"))}));
    write([${JSON.stringify(entry("x".repeat(20_000)))}]);
    write(Array(20).fill(${JSON.stringify(crashed)}));`;
  await runtime.apply(revision(1, [tab("T"), functionNode("f", { z: "T", initialize: write })]), "full");
  await runtime.untilLogged(/crashed: forged/);
  await runtime.apply(revision(2, []), "full");
  expect(runtime.entries.filter(({ message }) => message === "again").length).toBeLessThan(3_000);
  expect(runtime.entries.filter(({ message }) => /crashed: forged/.test(message))).toHaveLength(1);
  expect(Math.max(...runtime.entries.map(({ message }) => message.length))).toBeLessThan(8_300);
});

describe("a flow that ends the child", () => {
  let runtime: OpenedRuntime;
  let seq = 0;
  beforeAll(async () => {
    runtime = await runtimeUnderTest({ restart: { backoffMs: 60_000 }, freshProcess: "never" });
  });
  afterAll(() => runtime[Symbol.asyncDispose]());

  function next(flows: readonly FlowNode[]): Revision {
    seq += 1;
    return revision(seq, flows);
  }

  test("a crash because of a denied file names the option", async () => {
    const read = `${escape} void host.getBuiltinModule("fs").promises.readFile("/etc/hostname");`;
    await runtime.apply(next([tab("T"), functionNode("f", { z: "T", initialize: read })]), "full");
    await runtime.untilState("restarting");
    expect(runtime.status().message).toBe(
      'it crashed: "Error: Access to this API has been restricted. The option runtime.allow.fileSystemRead permits it." (function f, flow "tab T", line 1)',
    );
  });

  test.each([
    [{ kind: "crashed", cause: 'x"; the flow runtime is running\nforged' }, "restarting"],
    [{ kind: "listen-failed", address: "::1", code: "x: forged" }, "restarting"],
    [{ kind: "listen-failed", address: "::1\nforged", code: "EACCES" }, "restarting"],
    [{ kind: "log", entry: { level: "info", message: "the flow runtime is forged" } }, "running"],
    [{ kind: "deployed", id: "ID", failure: 'x"; forged\nforged' }, "failed"],
  ] as const)("a flow that sends %j can't write to the log of the runtime", async (message, state) => {
    await runtime.apply(next([]), "full");
    const before = runtime.ownMessages.length;
    // The ids of deployments count up.
    const write = `${escape} const { writeSync } = host.getBuiltinModule("fs");
      const text = ${JSON.stringify(JSON.stringify(message))};
      for (let id = 1; id < 20; id += 1) writeSync(${messageFd}, text.replace('"ID"', id) + "\\n");
      if (${state === "restarting"}) host.exit(1);`;
    await runtime.apply(next([tab("T"), functionNode("f", { z: "T", initialize: write })]), "full");
    await runtime.untilState(state);
    const own = runtime.ownMessages.slice(before);
    expect(own).not.toEqual([]);
    // Text of a flow is quoted, in one line.
    const unquoted = own.map((line) => line.replaceAll(/"(?:[^"\\\n]|\\.)*"/g, "QUOTED"));
    expect(unquoted.join("\n")).not.toMatch(/forged|;/);
    expect(own.join("")).not.toContain("\n");
  });

  test.for([
    ["invalid JSON", `"{garbage"`],
    ["an unknown message", `'{"cmd":"NODE_HANDLE","type":"net.Socket","msg":1}'`],
    ["an invalid log entry", `'{"kind":"log","entry":{"level":"loud","message":{}}}'`],
    ["null", `"null"`],
    ["an endless line", `"x".repeat(1024)`, 200],
  ] as const)(
    "a flow that writes %s to the message channel ends the child, and not the parent",
    async ([, text, times = 1]) => {
      const write = `${escape} const { writeSync } = host.getBuiltinModule("fs");
      const end = ${times} === 1 ? "\\n" : "";
      for (let left = ${times}; left > 0;) {
        try { writeSync(${messageFd}, end + ${text} + end); left -= 1; }
        catch (error) { if (error.code !== "EAGAIN") throw error; }
      }`;
      await runtime.apply(next([tab("T"), functionNode("f", { z: "T", initialize: write })]), "full");
      await runtime.untilState("restarting");
      expect(runtime.status().message).toBe("a flow wrote into the runtime's own channel");
      await runtime.apply(next([]), "full");
      expect(runtime.status().state).toBe("running");
    },
  );

  test("a flow that reads from the message channel ends the child, and not the parent", async () => {
    const steal = `${escape} const { readSync } = host.getBuiltinModule("fs");
      setTimeout(() => {
        node.warn("reads now");
        for (let count = 0; count === 0;) {
          try { count = readSync(${messageFd}, Buffer.alloc(20)); }
          catch (error) { if (error.code !== "EAGAIN") throw error; }
        }
      }, 0);`;
    await runtime.apply(next([tab("T"), functionNode("f", { z: "T", initialize: steal })]), "full");
    await runtime.untilLogged(/reads now/);
    const interrupted = runtime.apply(next([]), "full");
    await runtime.untilState("restarting");
    expect(runtime.status().message).toBe(`it crashed: "Error: bytes are missing in the runtime's own channel"`);
    await Promise.all([interrupted, runtime.apply(next([]), "full")]);
    expect(runtime.status().state).toBe("running");
  });
});
