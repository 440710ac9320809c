import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, type Server, createServer } from "node:net";
import { expect, test } from "vitest";
import { addressOf, listen } from "../src/addresses.ts";
import { revision, runtimeUnderTest } from "../../runtime/test/builders.ts";
import { endpoint } from "../../runtime/test/flow-builders.ts";

async function take(host: string, port = 0): Promise<{ server: Server; port: number }> {
  const server = createServer().listen(port, host);
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port };
}

test("HTTP-in nodes are reached on both loopback addresses by default", async () => {
  await using runtime = await runtimeUnderTest({ host: "localhost" });
  await runtime.apply(revision(1, endpoint("/hello", `msg.payload = "hello"`)), "full");
  const { httpPort } = runtime.status();
  for (const host of ["127.0.0.1", "[::1]"]) {
    expect(await (await fetch(`http://${host}:${httpPort}/hello`)).text()).toBe("hello");
  }
  await expect(take("::1", httpPort)).rejects.toThrow("EADDRINUSE");
});

test.each(["127.0.0.1", "::1"])("localhost is refused if %s is taken", async (host) => {
  const { server: holder, port } = await take(host);
  const server = createHttpServer();
  await expect(listen(server, "localhost", port)).rejects.toMatchObject({ address: host, port, code: "EADDRINUSE" });
  holder.close();
  expect(server.listening).toBe(false);
});

test("an explicit address takes only that", async () => {
  const server = createHttpServer();
  expect(await listen(server, "127.0.0.1", 0)).toBeUndefined();
  const { server: other, port } = await take("::1", addressOf(server).port);
  expect(port).toBe(addressOf(server).port);
  other.close();
  server.close();
});
