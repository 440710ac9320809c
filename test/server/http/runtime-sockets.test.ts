import { execFile } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { createRuntimeSockets } from "../../../src/server/http/runtime-sockets.ts";
import { startHolder } from "./start-holder.ts";
import { onLinux } from "../../needs.ts";

/** A server on all addresses of the machine that keeps what it has accepted. */
async function acceptAll() {
  const accepted: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    accepted.push(socket.on("error", () => {}).resume());
  });
  server.listen(0, "::");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    port,
    accepted,
    async untilAccepted(count: number) {
      await expect.poll(() => accepted.length).toBe(count);
    },
    [Symbol.dispose]() {
      accepted.forEach((socket) => socket.destroy());
      server.close();
    },
  };
}

describe("the connections of the runtime", onLinux, () => {
  test.each(["127.0.0.1", "::1", "::ffff:127.0.0.1"])("to %s are found among others", async (host) => {
    using server = await acceptAll();
    const own = connect({ host, port: server.port });
    await server.untilAccepted(1);
    await using holder = startHolder({ host, port: server.port, count: 3 });
    await server.untilAccepted(4);
    const runtime = createRuntimeSockets({ processId: () => holder.pid, hasChildren: false });
    const found = await runtime.find(server.accepted);
    expect(server.accepted.map((socket) => found.has(socket))).toEqual([false, true, true, true]);
    own.destroy();
  });

  test("include those of processes that flows have started, if they can", async () => {
    using server = await acceptAll();
    await using holder = startHolder({ host: "127.0.0.1", port: server.port, count: 1, inChild: true });
    await server.untilAccepted(1);
    const sizes = [true, false].map(async (hasChildren) => {
      const runtime = createRuntimeSockets({ processId: () => holder.pid, hasChildren });
      return (await runtime.find(server.accepted)).size;
    });
    expect(await Promise.all(sizes)).toEqual([1, 0]);
  });

  test("are distinguished from those whose other end nobody has any more", async () => {
    using server = await acceptAll();
    await using holder = startHolder({ host: "127.0.0.1", port: server.port, count: 1, text: "a", ends: true });
    await holder.until(({ connects, open }) => connects === 1 && open === 0);
    await server.untilAccepted(1);
    const runtime = createRuntimeSockets({ processId: () => process.pid, hasChildren: false });
    expect([...(await runtime.find(server.accepted)).values()]).toEqual(["abandoned"]);
  });

  test("are distinguished from those that were reset, also while they are not read", async () => {
    using server = await acceptAll();
    const clients = ["127.0.0.1", "::1"].map((host) => connect({ host, port: server.port }));
    const kept = connect(server.port, "127.0.0.1");
    await server.untilAccepted(3);
    server.accepted.forEach((socket) => socket.pause());
    const isReset = server.accepted.map(({ remotePort }) => remotePort !== kept.localPort);
    clients.forEach((client) => client.resetAndDestroy());
    await Promise.all(clients.map((client) => once(client, "close")));
    const runtime = createRuntimeSockets({ processId: () => undefined, hasChildren: false });
    const found = await runtime.find(server.accepted);
    expect(server.accepted.map((socket) => found.get(socket) === "abandoned")).toEqual(isReset);
    kept.destroy();
  });

  test("are not looked for at other addresses of the machine while descriptors are used up", async () => {
    const module = JSON.stringify(import.meta.resolve("../../../src/server/http/runtime-sockets.ts"));
    const code = `import { openSync } from "node:fs";
      import { createRuntimeSockets } from ${module};
      const { isPossible } = createRuntimeSockets({ processId: () => 1, hasChildren: false });
      try { for (;;) openSync("/dev/null"); } catch { console.log(isPossible("192.0.2.1")); }`;
    const command = 'ulimit -n 60; exec "$0" --input-type=module --eval "$1"';
    const { stdout } = await promisify(execFile)("sh", ["-c", command, process.execPath, code]);
    expect(stdout).toBe("false\n");
  });

  test("are looked up for several callers at once", async () => {
    using server = await acceptAll();
    await using holder = startHolder({ host: "127.0.0.1", port: server.port, count: 20 });
    await server.untilAccepted(20);
    const runtime = createRuntimeSockets({ processId: () => holder.pid, hasChildren: false });
    const found = await Promise.all(server.accepted.map((socket) => runtime.find([socket])));
    expect(server.accepted.every((socket, at) => found[at]?.has(socket))).toBe(true);
    expect(new Set(found).size).toBe(1);
  });

  test("are looked up again after a pause, which is short even if other work has delayed the lookup", async () => {
    using server = await acceptAll();
    const own = connect({ host: "127.0.0.1", port: server.port });
    await server.untilAccepted(1);
    const runtime = createRuntimeSockets({ processId: () => process.pid, hasChildren: false });
    const first = runtime.find(server.accepted);
    await Promise.resolve();
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
    await first;
    const ended: string[] = [];
    const note = (event: string) => () => void ended.push(event);
    const ending = new AbortController();
    const { signal } = ending;
    await Promise.race([
      Promise.all([
        delay(90).then(note("a timer of 90 ms")),
        runtime.find(server.accepted).then(note("the next lookup")),
      ]),
      delay(1_500, undefined, { signal }).then(note("a timer of 1,500 ms")),
    ]);
    ending.abort();
    expect(ended).toEqual(["a timer of 90 ms", "the next lookup"]);
    own.destroy();
  });

  test("are unknown while it does not run, and impossible from other machines", async () => {
    using server = await acceptAll();
    await using _ = startHolder({ host: "127.0.0.1", port: server.port, count: 1 });
    await server.untilAccepted(1);
    const stopped = createRuntimeSockets({ processId: () => undefined, hasChildren: false });
    expect([stopped.isPossible("127.0.0.1"), (await stopped.find(server.accepted)).size]).toEqual([false, 0]);
    const running = createRuntimeSockets({ processId: () => process.pid, hasChildren: false });
    const addresses = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "192.0.2.1", "unix:", ""];
    expect(addresses.map((address) => running.isPossible(address))).toEqual([
      true,
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
  });
});
