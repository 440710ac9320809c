import { fastify } from "fastify";
import { pino } from "pino";
import { expect, test } from "vitest";
import { publicRoute } from "../../src/node-red/access.ts";
import { handleErrors } from "../../src/node-red/errors.ts";
import { limitRequests } from "../../src/node-red/request-limits.ts";
import { silentObserver } from "../../src/telemetry/observer.ts";

test("a source can't take all requests to public routes", async () => {
  const app = fastify();
  handleErrors(app, pino({ level: "silent" }));
  limitRequests(app, { memory: undefined, observer: silentObserver });
  const released = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  let waiting = 0;
  app.get("/held", { config: publicRoute }, async () => {
    waiting += 1;
    if (waiting === 32) {
      arrived.resolve();
    }
    await released.promise;
    return "held";
  });
  app.get("/checked", { config: { access: { kind: "authenticated" } } }, () => "checked");
  await using _ = { [Symbol.asyncDispose]: () => app.close() };
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  const held = Array.from({ length: 32 }, () => fetch(`${url}/held`).then((response) => response.text()));
  await arrived.promise;
  expect(await (await fetch(`${url}/held`)).json()).toMatchObject({ code: "overloaded" });
  expect(await (await fetch(`${url}/checked`)).text()).toBe("checked");
  released.resolve();
  expect(new Set(await Promise.all(held))).toEqual(new Set(["held"]));
  await expect.poll(async () => (await fetch(`${url}/held`)).status).toBe(200);
});
