import { expect, test } from "vitest";
import { openRaw } from "../server/http/raw-connection.ts";
import { type Service, type ServiceOptions, startService, withoutRuntime } from "./service.ts";

const start = (options: ServiceOptions = {}): Promise<Service> => startService({ config: withoutRuntime, ...options });

test("the process of a service that has stopped is used again", async () => {
  await using first = await start();
  expect(await first.stop()).toBe(0);
  await using second = await start();
  expect(second.pid).toBe(first.pid);
  expect(second.url).not.toBe(first.url);
  expect(first.log()).not.toContain(second.url);
  expect(second.log()).not.toContain(first.url);
  await first.kill9();
  expect((await second.send("GET", "/readyz")).status).toBe(200);
});

test("a service that runs, was killed, or has a process of its own leaves none", async () => {
  await using running = await start();
  await using killed = await start();
  await using own = await start({ ownProcess: true });
  expect([await own.stop(), await killed.kill9(), await killed.exited]).toEqual([0, undefined, null]);
  await using next = await start();
  expect([running.pid, killed.pid, own.pid]).not.toContain(next.pid);
});

test("a process that has run a service before ends with one that is signalled again while it drains", async () => {
  await using first = await start();
  await first.stop();
  await using service = await start();
  expect(service.pid).toBe(first.pid);
  using raw = await openRaw(service.port);
  raw.write(
    "POST /flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
  );
  await raw.until(/100 Continue/);
  void service.stop();
  await service.untilLogged(/draining/);
  // Signals within a second are one request to stop.
  const again = setInterval(() => void service.stop(), 100);
  using _ = { [Symbol.dispose]: () => clearInterval(again) };
  expect(await service.exited).toBe(143);
});
