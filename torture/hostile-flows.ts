import { endpoint, functionNode, type Node, tab } from "../test/e2e/flow-builders.ts";
import { escape } from "../packages/runtime/test/flow-builders.ts";

/** What a hostile flow knows about the service. */
export type Target = { readonly port: number };

/** Flows that try to take the service down, by what they do. Each is bounded in what it does to the machine. */
export const hostileFlows: Readonly<Record<string, (target: Target) => Node[]>> = {
  // The event loop.
  "an endless loop": () => onStart("for (;;);"),
  "an endless loop in a timer": () => onStart("setInterval(() => { for (;;); }, 10);"),
  "a storm of microtasks": () => onStart("const again = () => Promise.resolve().then(again); again();"),
  "a storm of nextTick": () => escaped("const again = () => host.nextTick(again); again();"),
  "100,000 timers": () => onStart("for (let at = 0; at < 100_000; at++) setInterval(() => {}, 1);"),
  "a regular expression that backtracks": () => onStart(`/^(a+)+$/.test("a".repeat(40) + "b");`),
  "endless recursion": () =>
    onStart("setInterval(() => { const deep = () => deep() + deep(); try { deep(); } catch {} }, 1);"),
  "a wait for ever": () => onStart("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);"),
  // Memory.
  "a heap that grows": () =>
    onStart("const kept = []; setInterval(() => { for (let at = 0; at < 1e5; at++) kept.push({ at }); }, 1);"),
  "512 MiB of buffers": () =>
    onStart(
      "const kept = []; for (let at = 0; at < 8; at++) kept.push(Buffer.alloc(64 * 2 ** 20, 1)); context.set('kept', kept);",
    ),
  "a context that grows": () =>
    onStart(`let at = 0; setInterval(() => flow.set("key" + at++, "x".repeat(1e6) + at), 1);`),
  // The process.
  "process.exit": () => escaped("host.exit(0);"),
  "process.abort": () => escaped("host.abort();"),
  "SIGKILL of itself": () => escaped(`host.kill(host.pid, "SIGKILL");`),
  "SIGSTOP of itself": () => escaped(`host.kill(host.pid, "SIGSTOP");`),
  "signals to the service": () =>
    escaped(`for (const signal of ["SIGKILL", "SIGTERM", "SIGSTOP"]) try { host.kill(host.ppid, signal); } catch {}`),
  "unhandled rejections": () => escaped(`setInterval(() => { Promise.reject(new Error("hostile")); }, 1);`),
  "uncaught exceptions": () => escaped(`host.nextTick(() => { throw new Error("hostile"); });`),
  "processes and threads": () =>
    escaped(`setInterval(() => {
      try { load("child_process").spawn("sleep", ["1"]).on("error", () => {}); } catch {}
      try { new (load("worker_threads").Worker)("for (;;);", { eval: true }).on("error", () => {}); } catch {}
    }, 5);`),
  // The channel to the service.
  "garbage on its channel": () =>
    escaped(`setInterval(() => { load("fs").writeSync(3, Buffer.alloc(65_536, 0xff)); }, 1);`),
  "an endless line on its channel": () =>
    escaped(`setInterval(() => { try { load("fs").writeSync(3, "{".repeat(65_536)); } catch {} }, 1);`),
  "forged messages on its channel": () =>
    escaped(`setInterval(() => { for (const kind of ["ready", "deployed", "deploy-started", "heartbeat", "stopped", "constructor"])
      load("fs").writeSync(3, JSON.stringify({ kind, id: 1, missingTypes: [] }) + "\\n"); }, 1);`),
  "closed channels": () => escaped(`for (const fd of [3, 4]) try { load("fs").closeSync(fd); } catch {}`),
  // What it shares with the service.
  "a flood of warnings": () =>
    onStart(`setInterval(() => { for (let at = 0; at < 1_000; at++) node.warn("x".repeat(1_000)); }, 1);`),
  "a flood on stdout": () => escaped(`setInterval(() => host.stdout.write("x".repeat(1e6)), 1);`),
  "a flood of statuses": () =>
    onStart(`setInterval(() => { for (let at = 0; at < 1_000; at++) node.status({ text: "s" + at }); }, 1);`),
  "huge debug messages": () => [
    ...onStart(`setInterval(() => node.send({ payload: "x".repeat(1e7) }), 10);`, [["debug"]]),
    {
      id: "debug",
      type: "debug",
      z: "hostile",
      x: 1,
      y: 1,
      active: true,
      console: true,
      tosidebar: true,
      complete: "true",
      wires: [],
    },
  ],
  "2,000 files in its folder": () =>
    escaped(`for (let at = 0; at < 2_000; at++) load("fs").writeFileSync("flood-" + at, "x".repeat(1_000));`),
  "listening on 200 ports": ({ port }) =>
    escaped(`load("net").createServer(() => {}).on("error", () => {}).listen(${port}, "127.0.0.1");
      for (let at = 0; at < 200; at++) load("net").createServer(() => {}).on("error", () => {}).listen(0, "127.0.0.1");`),
  "300 connections to the API": ({ port }) =>
    escaped(`const open = () => load("net").connect(${port}, "127.0.0.1").on("error", () => {}).on("close", () => setTimeout(open, 100));
      for (let at = 0; at < 300; at++) open();`),
  "requests to the API": ({ port }) =>
    escaped(`const ask = () => load("http").get({ port: ${port}, host: "127.0.0.1", path: "/flows" }, (response) => response.resume().on("end", ask)).on("error", () => setTimeout(ask, 10));
      for (let at = 0; at < 20; at++) ask();`),
  "datagrams to loopback": () =>
    escaped(`const socket = load("dgram").createSocket("udp4").on("error", () => {});
      setInterval(() => { for (let at = 0; at < 500; at++) socket.send("x".repeat(500), 9, "127.0.0.1", () => {}); }, 1);`),
  "endpoints that never respond": () => [
    ...endpoint("/never", "return null"),
    ...onStart(`for (let at = 0; at < 100; at++) context.set("at", at);`),
  ],
  "polluted prototypes": () =>
    escaped(`const realm = (name) => util.inspect.constructor("return " + name)();
      realm("Object").prototype.kind = "ready"; realm("Object").prototype.id = 1; realm("Array").prototype.map = () => [];
      realm("JSON").stringify = () => "hostile"; realm("Promise").prototype.then = () => {};`),
};

/** A function node that runs the code when it starts. */
function onStart(initialize: string, wires: string[][] = [[]]): Node[] {
  return [tab("hostile"), functionNode("hostile code", { z: "hostile", initialize, wires })];
}

/** The same, with `host` (process) and `load` (of built-in modules), since the function's vm does not isolate it. */
function escaped(code: string): Node[] {
  return onStart(`${escape} const load = (name) => host.getBuiltinModule(name); ${code}`);
}
