import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { expect, test } from "vitest";
import { createNodeHandler } from "../../src/adapters/node/index.ts";

test("a handler is a fallback of Connect's adapter, and a listener of both servers", async () => {
  const handler = createNodeHandler({ routes: () => {} });
  await using server = createServer(connectNodeAdapter({ routes: () => {}, fallback: handler }));
  const http2Server = createHttp2Server(handler);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const response = await fetch(`http://127.0.0.1:${port}/v1/none`);
  expect([response.status, await response.json()]).toEqual([404, expect.objectContaining({ code: "not_found" })]);
  expect(http2Server.listenerCount("request")).toBe(1);
});
