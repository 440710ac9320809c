// Connect's own adapters. Arguments: http1 or h2c, and fastify (the default) or node.
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { fastify, type FastifyInstance } from "fastify";
import { routes } from "./routes.ts";

const [, , version, framework = "fastify"] = process.argv;

async function listen(): Promise<string> {
  if (framework === "fastify") {
    const app = (version === "h2c" ? fastify({ http2: true }) : fastify()) as unknown as FastifyInstance;
    await app.register(fastifyConnectPlugin, { routes });
    return app.listen({ host: "127.0.0.1", port: 0 });
  }
  const adapter = connectNodeAdapter({ routes });
  const server = version === "h2c" ? createHttp2Server(adapter) : createServer(adapter);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

process.stdout.write(`listens on ${await listen()}\n`);
process.once("SIGTERM", () => process.exit());
