import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { openApi } from "../open-api.ts";

async function take(host: string) {
  const server = createServer().listen(0, host);
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, [Symbol.dispose]: () => void server.close() };
}

const statusAt = async (host: string, port: number) => (await fetch(`http://${host}:${port}/healthz`)).status;

test("localhost is both loopback addresses, on the same port", async () => {
  const server = await openApi({ host: "localhost" });
  expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
  expect([await statusAt("127.0.0.1", server.port), await statusAt("[::1]", server.port)]).toEqual([200, 200]);
  await server[Symbol.asyncDispose]();
  await expect(statusAt("[::1]", server.port)).rejects.toThrow("fetch failed");
});

test.each(["127.0.0.1", "::1"])("refuses to start while another process has the port on %s", async (address) => {
  using other = await take(address);
  await expect(openApi({ host: "localhost", port: other.port })).rejects.toMatchObject({
    code: "EADDRINUSE",
    address,
    port: other.port,
  });
});

test("an explicit address takes only that", async () => {
  using other = await take("::1");
  await using server = await openApi({ host: "127.0.0.1", port: other.port });
  expect(await statusAt("127.0.0.1", server.port)).toBe(200);
});
