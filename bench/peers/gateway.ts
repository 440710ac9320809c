// The gateway library alone. Arguments: node or fastify, and http1 or h2c.
import { createServer } from "node:http";
import { createServer as createHttp2Server } from "node:http2";
import type { AddressInfo } from "node:net";
import { fastifyGatewayPlugin } from "@flowgate/gateway/fastify";
import { createNodeHandler } from "@flowgate/gateway/node";
import { fastify, type FastifyInstance } from "fastify";
import { routes } from "./routes.ts";

const [, , framework, version] = process.argv;

async function listen(): Promise<string> {
  if (framework === "fastify") {
    const app = (version === "h2c" ? fastify({ http2: true }) : fastify()) as unknown as FastifyInstance;
    await app.register(fastifyGatewayPlugin, { routes });
    return app.listen({ host: "127.0.0.1", port: 0 });
  }
  const handler = createNodeHandler({ routes });
  const server = version === "h2c" ? createHttp2Server().on("stream", handler.onStream) : createServer(handler);
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

process.stdout.write(`listens on ${await listen()}\n`);
process.once("SIGTERM", () => process.exit());
