import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, type IncomingHttpHeaders } from "node:http2";
import type { TestRequest } from "./requests.ts";

/** What a client receives. */
export type Answer = {
  readonly status: number;
  /** Without those of the connection and the time. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: string;
  /** Whether the response was aborted. */
  readonly isAborted: boolean;
};

export type SendRequest = (request: TestRequest) => Promise<Answer>;

/** Sends requests over HTTP/1.1, unmodified. */
export function createHttp1Client(url: string): SendRequest {
  const { hostname, port } = new URL(url);
  return async ({ method, path, headers = {}, body }) => {
    const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
    const request = httpRequest({
      host: hostname,
      port,
      method,
      path,
      headers: { ...headers, ...length },
      agent: false,
    });
    // Errors after the response are ignored.
    const failed = once(request, "error").then(([error]) => Promise.reject(error as Error));
    failed.catch(() => {});
    request.end(body);
    const [response] = (await Promise.race([once(request, "response"), failed])) as [
      AsyncIterable<Uint8Array> & { statusCode: number; headers: IncomingHttpHeaders },
    ];
    return readAnswer(response.statusCode, response.headers, response);
  };
}

/** Sends requests over HTTP/2 without TLS. */
export function createHttp2Client(url: string): AsyncDisposable & { readonly send: SendRequest } {
  const session = connect(url);
  return {
    async send({ method, path, headers = {}, body }) {
      const stream = session.request(
        { ":method": method, ":path": path, ...headers },
        { endStream: body === undefined },
      );
      stream.on("error", () => {});
      if (body !== undefined) {
        stream.end(body);
      }
      const [head] = (await once(stream, "response")) as [IncomingHttpHeaders & { ":status"?: number }];
      return readAnswer(head[":status"] ?? 0, head, stream);
    },
    async [Symbol.asyncDispose]() {
      session.destroy();
    },
  };
}

/** Calls a handler with Requests, without a server. */
export function createFetchClient(
  fetch: (request: Request) => Response | Promise<Response>,
  url = "http://127.0.0.1",
): SendRequest {
  return async ({ method, path, headers = {}, body }) => {
    const init = { method, headers, ...(body !== undefined && { body: body as BodyInit }) };
    const response = await fetch(new Request(`${url}${path}`, init));
    const cookies = response.headers.getSetCookie();
    const all = { ...Object.fromEntries(response.headers), ...(cookies.length > 0 && { "set-cookie": cookies }) };
    return readAnswer(response.status, all, response.body ?? []);
  };
}

type BodyInit = NonNullable<RequestInit["body"]>;

const ofConnection = new Set(["connection", "date", "keep-alive", "transfer-encoding"]);

async function readAnswer(
  status: number,
  headers: Readonly<Record<string, unknown>>,
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<Answer> {
  const received: Uint8Array[] = [];
  let isAborted = false;
  try {
    for await (const chunk of chunks) {
      received.push(chunk);
    }
  } catch {
    isAborted = true;
  }
  const own = Object.entries(headers).filter(([name]) => !ofConnection.has(name) && !name.startsWith(":"));
  return {
    status,
    headers: Object.fromEntries(own) as Answer["headers"],
    body: Buffer.concat(received).toString("latin1"),
    isAborted,
  };
}
