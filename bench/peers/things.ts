// Two small operations: by the gateway, by Connect's own plugin, or by bare Fastify routes with the same requests and
// responses. Argument: gateway, connect or fastify.
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { fastify, type FastifyInstance } from "fastify";
import { fastifyGatewayPlugin } from "@flowgate/gateway/fastify";
import { routes, rules, type Thing } from "./things-service.ts";

type UserRequest = { Params: { name: string }; Querystring: { age: string; admin: string } };

const stacks: Record<string, (app: FastifyInstance) => void> = {
  gateway(app) {
    app.register(fastifyGatewayPlugin, { routes, rules });
  },
  connect(app) {
    app.register(fastifyConnectPlugin, { routes });
  },
  fastify(app) {
    app.get<UserRequest>("/users/:name", async ({ params, query }) => ({
      userName: params.name,
      age: Number(query.age),
      admin: query.admin === "true",
    }));
    app.post<{ Body: Thing }>("/things/echo", async ({ body: { text, flag, small, texts } }) => ({
      text,
      flag,
      small,
      texts,
    }));
  },
};

const app = fastify();
stacks[process.argv[2] ?? ""]?.(app);
process.stdout.write(`listens on ${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => void app.close());
