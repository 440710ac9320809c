import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { createContextValues } from "@connectrpc/connect";
import { fastify, type FastifyInstance } from "fastify";
import { handleErrors } from "../../../packages/node-red/src/errors.ts";
import { describe, expect, test } from "vitest";
import { FlowgateError } from "@flowgate/flows/errors";
import { toConnectError } from "../../../src/server/pipeline/errors.ts";
import { createRequestLimits } from "../../../src/server/tools/request-limits.ts";
import { MemoryBudget } from "../../../src/server/memory/memory-budget.ts";
import { silentObserver } from "../../../src/telemetry/observer.ts";

const errors = { toConnectError: (error: unknown) => toConnectError(error as FlowgateError) };

test("a source can't take all requests to public routes", async () => {
  const app = fastify();
  handleErrors(app, errors);
  const limit = createRequestLimits({ memory: undefined, observer: silentObserver });
  app.addHook("onRequest", (request, reply) =>
    limit(request, reply, createContextValues(), request.routeOptions.config.access?.kind === "public"),
  );
  const released = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  let waiting = 0;
  app.get("/held", { config: { access: { kind: "public" } } }, async () => {
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

describe("with a budget of memory", () => {
  const createError = () => new FlowgateError("overloaded", "the memory is taken");
  const body = JSON.stringify("x".repeat(200_000));
  type Hook = (reply: ServerResponse) => Promise<void>;

  /** Has memory to decode one such body of a client. `check` is called while the caller is checked, `handle` when the body has arrived. */
  function createApp(check: Hook, handle: Hook): FastifyInstance {
    const app = fastify({ forceCloseConnections: true });
    handleErrors(app, errors);
    const memory = new MemoryBudget({ capacityBytes: 4 * 1024 * 1024, waitMs: 0, createError });
    const limit = createRequestLimits({ memory, observer: silentObserver });
    app.addHook("onRequest", async (request, reply) => {
      await check(reply.raw);
      await limit(request, reply, createContextValues(), false);
    });
    const route = { config: { access: { kind: "authenticated" } }, bodyLimit: 300_000 } as const;
    app.post("/flows", route, async (_, reply) => {
      await handle(reply.raw);
      return "taken";
    });
    return app;
  }

  test("a client that disconnects while its caller is checked takes nothing", async () => {
    let check: Hook = async () => {};
    const app = createApp(
      (reply) => check(reply),
      async () => {},
    );
    await using _ = { [Symbol.asyncDispose]: () => app.close() };
    const url = await app.listen({ host: "127.0.0.1", port: 0 });
    // Their bodies do not arrive.
    const head = `POST /flows HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    // More than may be in flight.
    for (let index = 0; index < 130; index++) {
      const client = connect({ host: "127.0.0.1", port: Number(new URL(url).port) });
      const checked = Promise.withResolvers<void>();
      check = async (reply) => {
        const closed = once(reply, "close");
        client.destroy();
        await closed;
        checked.resolve();
      };
      client.write(head);
      await checked.promise;
    }
    check = async () => {};
    const reply = await fetch(`${url}/flows`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    expect([reply.status, await reply.text()]).toEqual([200, "taken"]);
  });

  test("a body takes what decoding it takes, however its type is spelled, and one that is too long takes nothing", async () => {
    const arrived = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const app = createApp(
      async () => {},
      async () => {
        arrived.resolve();
        await released.promise;
      },
    );
    await using _ = { [Symbol.asyncDispose]: () => app.close() };
    const post = async (type: string, payload: string) =>
      (await app.inject({ method: "POST", url: "/flows", headers: { "content-type": type }, payload })).statusCode;
    const first = post("application/json", body);
    await arrived.promise;
    expect(await post("Application/JSON", body)).toBe(503);
    expect(await post("application/json", body.repeat(2))).toBe(413);
    released.resolve();
    expect(await first).toBe(200);
  });
});
