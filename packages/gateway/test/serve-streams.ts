import { fastify, type FastifyInstance } from "fastify";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect } from "node:http2";
import { fastifyGatewayPlugin, type FastifyGatewayPluginOptions } from "../src/adapters/fastify/index.ts";

export type HttpVersion = "HTTP/1.1" | "HTTP/2";

/** A response whose body is read as it arrives. */
type StreamedResponse = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The chunks of the body; throws if the response is aborted. */
  readonly chunks: AsyncIterable<Buffer>;
  /** Reads the whole body; `isComplete` is false if the response was aborted. */
  read(): Promise<{ body: string; isComplete: boolean }>;
  disconnect(): void;
};

type RequestOptions = {
  readonly headers?: Record<string, string>;
  /** An iterable is sent chunk by chunk, while the response is read. */
  readonly body?: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array> | string | Uint8Array;
};

export type Streams = AsyncDisposable & {
  readonly app: FastifyInstance;
  request(method: string, path: string, options?: RequestOptions): Promise<StreamedResponse>;
};

/** Starts a server of one HTTP version, with a client that reads responses as they arrive. */
export async function serveStreams(version: HttpVersion, options: FastifyGatewayPluginOptions): Promise<Streams> {
  const app =
    version === "HTTP/2"
      ? (fastify({ http2: true }) as unknown as FastifyInstance)
      : fastify({ forceCloseConnections: true });
  await app.register(fastifyGatewayPlugin, options);
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as { port: number };
  if (version === "HTTP/1.1") {
    return {
      app,
      request: (method, path, init) => requestOverHttp1(port, method, path, init),
      [Symbol.asyncDispose]: () => app.close(),
    };
  }
  const session = connect(`http://127.0.0.1:${port}`);
  return {
    app,
    request(method, path, { headers = {}, body } = {}) {
      const stream = session.request(
        { ":method": method, ":path": path, ...headers },
        { endStream: body === undefined },
      );
      stream.on("error", () => {});
      void send(stream, body);
      return new Promise((resolve, reject) => {
        stream.once("close", () => reject(new Error(`closed without a response: ${stream.rstCode}`)));
        stream.once("response", (head) => {
          resolve(createResponse(Number(head[":status"]), head, stream, () => stream.close(8)));
        });
      });
    },
    async [Symbol.asyncDispose]() {
      session.destroy();
      await app.close();
    },
  };
}

function requestOverHttp1(
  port: number,
  method: string,
  path: string,
  { headers = {}, body }: RequestOptions = {},
): Promise<StreamedResponse> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, method, path, headers, agent: false }, (response) => {
      // Errors of the request after the response are ignored.
      request.on("error", () => {});
      resolve(createResponse(response.statusCode ?? 0, response.headers, response, () => request.destroy()));
    });
    request.once("error", reject);
    void send(request, body);
  });
}

async function send(
  target: NodeJS.WritableStream & { destroyed: boolean },
  body: RequestOptions["body"],
): Promise<void> {
  if (body !== undefined) {
    for await (const chunk of typeof body === "string" || body instanceof Uint8Array ? [body] : body) {
      if (target.destroyed) {
        return;
      }
      target.write(chunk);
    }
  }
  target.end();
}

/** Collects the items of an iterable. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}

function createResponse(
  status: number,
  headers: IncomingHttpHeaders,
  chunks: AsyncIterable<Buffer>,
  disconnect: () => void,
): StreamedResponse {
  return {
    status,
    headers,
    chunks,
    disconnect,
    async read() {
      let body = "";
      try {
        for await (const chunk of chunks) {
          body += chunk.toString();
        }
      } catch {
        return { body, isComplete: false };
      }
      return { body, isComplete: true };
    },
  };
}
