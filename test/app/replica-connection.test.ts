import { once } from "node:events";
import { createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { expect, test, vi } from "vitest";
import { openReplicaConnection } from "../../src/app/replica-connection.ts";

test("pings nothing after it was closed during a stream", async () => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const replica = { id: "b", address: `http://127.0.0.1:${port}`, certificate: undefined };
  const connection = openReplicaConnection(
    { cluster: { id: "a" }, keys: () => [Buffer.alloc(32)], certificates: undefined },
    replica,
  );
  const closed = new Promise<void>((resolve) => {
    server.once("session", (session) => {
      // The client ends it with an error code.
      session.once("error", () => {});
      session.once("close", resolve);
    });
  });
  server.once("stream", (stream: ServerHttp2Stream) => {
    stream.once("error", () => {});
    stream.respond({ ":status": 200, "content-type": "application/grpc" });
  });
  const responded = Promise.withResolvers<void>();
  const messages = connection.client.watchReplica({}, { onHeader: () => responded.resolve() });
  const ended = messages[Symbol.asyncIterator]()
    .next()
    .catch((error: unknown) => error);
  await responded.promise;

  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    connection[Symbol.dispose]();
    expect(await ended).toMatchObject({ message: expect.stringContaining("connection aborted") as string });
    await closed;
    // Longer than the interval of pings and the time that a response may take.
    vi.advanceTimersByTime(60_000);
  } finally {
    vi.useRealTimers();
    server.close();
  }
});
