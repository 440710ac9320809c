import { fastify, type FastifyInstance } from "fastify";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect } from "node:http2";
import { fastifyTranscodingPlugin, type FastifyTranscodingPluginOptions } from "../src/adapters/fastify/index.ts";

export type HttpVersion = "HTTP/1.1" | "HTTP/2";

/** An answer as far as it came. */
type Exchange = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The pieces of the body, as they come; throws where the connection breaks off. */
  readonly pieces: AsyncIterable<Buffer>;
  /** All of the body, and whether it ended as an answer should. */
  read(): Promise<{ body: string; isComplete: boolean }>;
  /** Takes nothing more, and goes. */
  leave(): void;
};

type ExchangeOptions = {
  readonly headers?: Record<string, string>;
  /** Sent piece by piece, while the answer is read. */
  readonly body?: AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array> | string | Uint8Array;
};

export type Streams = AsyncDisposable & {
  readonly app: FastifyInstance;
  exchange(method: string, path: string, options?: ExchangeOptions): Promise<Exchange>;
};

/** A real server of one HTTP version, and a client that reads an answer as it comes. */
export async function serveStreams(version: HttpVersion, options: FastifyTranscodingPluginOptions): Promise<Streams> {
  const app =
    version === "HTTP/2"
      ? (fastify({ http2: true }) as unknown as FastifyInstance)
      : fastify({ forceCloseConnections: true });
  await app.register(fastifyTranscodingPlugin, options);
  await app.listen({ host: "127.0.0.1", port: 0 });
  const { port } = app.server.address() as { port: number };
  if (version === "HTTP/1.1") {
    return {
      app,
      exchange: (method, path, init) => exchangeOverHttp1(port, method, path, init),
      [Symbol.asyncDispose]: () => app.close(),
    };
  }
  const session = connect(`http://127.0.0.1:${port}`);
  return {
    app,
    exchange(method, path, { headers = {}, body } = {}) {
      const stream = session.request(
        { ":method": method, ":path": path, ...headers },
        { endStream: body === undefined },
      );
      stream.on("error", () => {});
      void send(stream, body);
      return new Promise((resolve, reject) => {
        stream.once("close", () => reject(new Error(`closed without an answer: ${stream.rstCode}`)));
        stream.once("response", (head) => {
          resolve(exchangeOf(Number(head[":status"]), head, stream, () => stream.close(8)));
        });
      });
    },
    async [Symbol.asyncDispose]() {
      session.destroy();
      await app.close();
    },
  };
}

function exchangeOverHttp1(
  port: number,
  method: string,
  path: string,
  { headers = {}, body }: ExchangeOptions = {},
): Promise<Exchange> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, method, path, headers, agent: false }, (response) => {
      // What is wrong with a request after its answer is of no interest.
      request.on("error", () => {});
      resolve(exchangeOf(response.statusCode ?? 0, response.headers, response, () => request.destroy()));
    });
    request.once("error", reject);
    void send(request, body);
  });
}

async function send(
  target: NodeJS.WritableStream & { destroyed: boolean },
  body: ExchangeOptions["body"],
): Promise<void> {
  if (body !== undefined) {
    for await (const piece of typeof body === "string" || body instanceof Uint8Array ? [body] : body) {
      if (target.destroyed) {
        return;
      }
      target.write(piece);
    }
  }
  target.end();
}

/** All that an iterable gives. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}

function exchangeOf(
  status: number,
  headers: IncomingHttpHeaders,
  pieces: AsyncIterable<Buffer>,
  leave: () => void,
): Exchange {
  return {
    status,
    headers,
    pieces,
    leave,
    async read() {
      let body = "";
      try {
        for await (const piece of pieces) {
          body += piece.toString();
        }
      } catch {
        return { body, isComplete: false };
      }
      return { body, isComplete: true };
    },
  };
}
