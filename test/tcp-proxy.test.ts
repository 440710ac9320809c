import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { openTcpProxy } from "./tcp-proxy.ts";

/** A server that repeats what it receives. */
async function openEcho(): Promise<AsyncDisposable & { readonly port: number; readonly clients: Set<Socket> }> {
  const clients = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    clients.add(socket);
    socket.on("error", () => {}).pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const dispose = async (): Promise<void> => {
    server.close();
    await once(server, "close");
  };
  return { port, clients, [Symbol.asyncDispose]: dispose };
}

/** Connects. The proxies reset connections at the end of a test. */
function dial(port: number): Socket {
  return connect(port, "127.0.0.1").on("error", () => {});
}

/** Sends a text, and returns what comes back. */
async function echo(socket: Socket, sent: string): Promise<string> {
  socket.write(sent);
  const [chunk] = (await once(socket, "data")) as [Buffer];
  return chunk.toString();
}

const codeOf = async (socket: Socket): Promise<unknown> => {
  const [error] = (await once(socket, "error")) as [NodeJS.ErrnoException];
  return error.code;
};

test("bytes and ends are forwarded in both directions", async () => {
  await using server = await openEcho();
  await using proxy = await openTcpProxy(server.port);
  const socket = dial(proxy.port);
  expect(await echo(socket, "one")).toBe("one");
  socket.end();
  await once(socket, "close");
});

test("chosen connections are reset, or all", async () => {
  await using server = await openEcho();
  await using proxy = await openTcpProxy(server.port);
  const [one, other] = [dial(proxy.port), dial(proxy.port)];
  await echo(one, "one");
  const [first] = server.clients;
  await echo(other, "other");
  const reset = codeOf(one);
  proxy.cut(first?.remotePort ?? 0);
  expect(await reset).toBe("ECONNRESET");
  expect(await echo(other, "again")).toBe("again");
  const otherReset = codeOf(other);
  proxy.cut();
  expect(await otherReset).toBe("ECONNRESET");
});

test("a stalled connection delivers later what was sent meanwhile, and so does one made meanwhile", async () => {
  await using server = await openEcho();
  await using proxy = await openTcpProxy(server.port);
  const socket = dial(proxy.port);
  await echo(socket, "one");
  proxy.stall();
  let received = "";
  socket.on("data", (chunk: Buffer) => (received += chunk.toString()));
  socket.write("two");
  const late = dial(proxy.port);
  const lateReceived = echo(late, "late");
  await using other = await openTcpProxy(server.port);
  const direct = dial(other.port);
  for (let trip = 0; trip < 10; trip++) {
    await echo(direct, "direct");
  }
  expect(received).toBe("");
  proxy.resume();
  expect(await lateReceived).toBe("late");
  expect(received).toBe("two");
});

test("a closed proxy refuses connections until it is opened again", async () => {
  await using server = await openEcho();
  await using proxy = await openTcpProxy(server.port);
  const socket = dial(proxy.port);
  await echo(socket, "one");
  const reset = codeOf(socket);
  await proxy.close();
  expect(await reset).toBe("ECONNRESET");
  expect(await codeOf(dial(proxy.port))).toBe("ECONNREFUSED");
  await proxy.open();
  const again = dial(proxy.port);
  expect(await echo(again, "two")).toBe("two");
});

test("new connections go to another port", async () => {
  await using one = await openEcho();
  await using other = await openEcho();
  await using proxy = await openTcpProxy(one.port);
  proxy.sendTo(other.port);
  await echo(dial(proxy.port), "text");
  expect([one.clients.size, other.clients.size]).toEqual([0, 1]);
});

test("what comes back takes the latency, in order, and its end comes last", async () => {
  await using server = await openEcho();
  await using proxy = await openTcpProxy(server.port, 50);
  const socket = dial(proxy.port);
  const beganMs = performance.now();
  socket.write("one ");
  socket.end("two");
  expect(await text(socket)).toBe("one two");
  // A timer can fire a millisecond early.
  expect(performance.now() - beganMs).toBeGreaterThan(48);
});
