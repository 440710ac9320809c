// Two small operations in Hono on Node: by the gateway's fetch handler, or by bare routes with the same requests and
// responses. Argument: gateway or hono.
import { serve } from "@hono/node-server";
import { createFetchHandler } from "@flowgate/gateway/fetch";
import { Hono } from "hono";
import { routes, rules, type Thing } from "./things-service.ts";

const stacks: Record<string, (app: Hono) => void> = {
  gateway(app) {
    const handler = createFetchHandler({ routes, rules });
    app.all("*", (context) => handler(context.req.raw));
  },
  hono(app) {
    app.get("/users/:name", (context) => {
      const { age, admin } = context.req.query();
      return context.json({ userName: context.req.param("name"), age: Number(age), admin: admin === "true" });
    });
    app.post("/things/echo", async (context) => {
      const { text, flag, small, texts } = await context.req.json<Thing>();
      return context.json({ text, flag, small, texts });
    });
  },
};

const app = new Hono();
stacks[process.argv[2] ?? ""]?.(app);
const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 }, ({ port }) => {
  process.stdout.write(`listens on http://127.0.0.1:${port}\n`);
});
process.once("SIGTERM", () => server.close());
