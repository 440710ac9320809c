import { fastify } from "fastify";
import { request as httpRequest } from "node:http";
import { fastifyGatewayPlugin, type FastifyGatewayPluginOptions } from "../src/adapters/fastify/index.ts";

type Reply = {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
  /** The bytes of the body. */
  bytes: Buffer;
};

export type Send = (
  method: string,
  path: string,
  options?: { headers?: Record<string, string>; body?: string | Uint8Array },
) => Promise<Reply>;

/** Starts a server with the plugin, with a client that sends requests unmodified. */
export async function serve(
  options: FastifyGatewayPluginOptions,
): Promise<AsyncDisposable & { send: Send; port: number }> {
  const app = fastify({ forceCloseConnections: true });
  app.register(fastifyGatewayPlugin, options);
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as { port: number };
  const send: Send = (method, path, { headers = {}, body } = {}) =>
    new Promise((resolve, reject) => {
      const request = httpRequest({ host: "127.0.0.1", port, method, path, headers }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString(),
            bytes: Buffer.concat(chunks),
          }),
        );
      });
      request.on("error", reject);
      request.end(body);
    });
  return { send, port, [Symbol.asyncDispose]: () => app.close() };
}

export const json = { "content-type": "application/json" };
export const form = { "content-type": "application/x-www-form-urlencoded" };
