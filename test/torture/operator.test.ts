import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { observe } from "../../torture/operator.ts";

test("each call of an operator counts, and those that fail by their status", async () => {
  const counts = { "/healthz": 0, "/settings": 0 };
  const server = createServer(({ url, headers }, response) => {
    counts[url as keyof typeof counts] += 1;
    response.writeHead(url === "/healthz" && headers.authorization === "Bearer T" ? 200 : 503).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const observing = await observe({ name: "TCP", url, sending: { headers: { authorization: "Bearer T" } } });
  const { calls, p99Ms, failures } = await observing.end();
  server.close();
  expect(calls).toBe(counts["/healthz"] + counts["/settings"]);
  expect(p99Ms).toBeGreaterThan(0);
  expect(failures).toEqual(new Map([["GET /settings over TCP: 503", counts["/settings"]]]));
});
