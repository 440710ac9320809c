// Connect's own Fastify plugin. Argument: http1 or h2c.
import type { ConnectRouter } from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { fastify, type FastifyInstance } from "fastify";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { login } from "./login.ts";

const routes = (router: ConnectRouter) => router.service(AuthService, { getLogin: () => login });
const app = (process.argv[2] === "h2c" ? fastify({ http2: true }) : fastify()) as unknown as FastifyInstance;
await app.register(fastifyConnectPlugin, { routes });
process.stdout.write(`listens on ${await app.listen({ host: "127.0.0.1", port: 0 })}\n`);
process.once("SIGTERM", () => process.exit());
