import { Agent, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { request as httpsRequest } from "node:https";
import type { SecureContextOptions } from "node:tls";

export type Reply = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The body as JSON. */
  json(): unknown;
};

export type Sending = {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent unchanged; the caller must set the Content-Type. */
  readonly body?: string | Uint8Array;
  /** For an https URL. */
  readonly tls?: SecureContextOptions;
  /** Connects to this Unix socket instead of the host and port of the URL. */
  readonly socketPath?: string;
  readonly signal?: AbortSignal;
};

const agent = new Agent({ keepAlive: false });

/** Sends one request over HTTP/1.1 unchanged. */
export function send(
  url: string,
  method: string,
  path: string,
  { headers = {}, body, tls, socketPath, signal }: Sending = {},
): Promise<Reply> {
  const { hostname, port, protocol } = new URL(url);
  const secure = protocol === "https:";
  return new Promise((resolve, reject) => {
    const length = body === undefined || "transfer-encoding" in headers ? {} : { "content-length": lengthOf(body) };
    const request = (secure ? httpsRequest : httpRequest)(
      {
        ...tls,
        ...(signal && { signal }),
        agent: secure ? false : agent,
        ...(socketPath === undefined ? { hostname, port } : { socketPath }),
        method,
        path,
        headers: { host: new URL(url).host, ...length, ...headers },
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: text,
            json: () => JSON.parse(text) as unknown,
          });
        });
      },
    );
    request.on("error", reject);
    request.end(body);
  });
}

function lengthOf(body: string | Uint8Array): string {
  return String(typeof body === "string" ? Buffer.byteLength(body) : body.length);
}

export const json = { "content-type": "application/json" };
export const form = { "content-type": "application/x-www-form-urlencoded" };
export const v2 = { "service-api-version": "v2" };

export function bearer(token: string): { authorization: string } {
  return { authorization: `Bearer ${token}` };
}
