import { once } from "node:events";
import http from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createListener } from "../../../src/server/http/listener.ts";
import { resetConnection } from "../../../src/server/http/connection.ts";
import { createFolder } from "../../store/builders.ts";
import { okResponse, serving } from "./exchange-handler.ts";

/** Both ends of a connection. */
async function open(path?: string): Promise<{ near: Socket; far: Socket } & Disposable> {
  const server = createServer({ allowHalfOpen: true });
  server.listen(path ?? { port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const far = connect(
    path === undefined ? { port: (server.address() as AddressInfo).port, host: "127.0.0.1" } : { path },
  );
  const [near] = await accepted;
  server.close();
  return { near, far, [Symbol.dispose]: () => void far.destroy() };
}

test("resets a TCP connection", async () => {
  using connection = await open();
  const failed = once(connection.far, "error") as Promise<[NodeJS.ErrnoException]>;
  resetConnection(connection.near);
  expect((await failed)[0].code).toBe("ECONNRESET");
});

test("closes a connection that is ending", async () => {
  using connection = await open();
  const closed = once(connection.near, "close");
  connection.near.end();
  resetConnection(connection.near);
  expect(await closed).toEqual([false]);
});

test("closes a connection to a Unix socket, so that too many of them do no harm", async () => {
  await using folder = await createFolder();
  const path = join(folder.path, "s");
  const released = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const handler = serving((exchange) => {
    arrived.resolve();
    void released.promise.then(() => exchange.send(okResponse("late")));
  });
  const listener = createListener(handler, { isUnixSocket: true, connections: 1 });
  listener.listen(path);
  await once(listener, "listening");
  const request = http.get({ socketPath: path, agent: false });
  const response = once(request, "response") as Promise<[http.IncomingMessage]>;
  await arrived.promise;
  const second = connect(path);
  second.on("error", () => {});
  await once(second, "close");
  released.resolve();
  const [{ statusCode }] = await response;
  expect(statusCode).toBe(200);
  request.destroy();
  listener.close();
});
