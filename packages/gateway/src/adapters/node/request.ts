import type { ContextValues } from "@connectrpc/connect";
import type { IncomingHttpHeaders, IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { Http2ServerRequest, Http2ServerResponse } from "node:http2";
import type { Socket } from "node:net";
import type { GatewayRequest } from "../../http/request.ts";
import { bodyAlreadyRead } from "../body-errors.ts";
import { readBody, streamBody } from "./body.ts";
import { isDestroyed } from "./send-stream.ts";

export type NodeRequest = IncomingMessage | Http2ServerRequest;

/**
 * The response to a `NodeRequest`. Node declares `write` and `writeHead` differently for both versions of HTTP. As in Connect's
 * `NodeServerResponse`, what both accept is declared here, so that a handler can be the `fallback` of Connect's adapter.
 */
export type NodeResponse = (Omit<ServerResponse, "write"> | Omit<Http2ServerResponse, "write">) & {
  write(chunk: string | Uint8Array, callback?: (error: Error | null | undefined) => void): boolean;
  write(
    chunk: string | Uint8Array,
    encoding: BufferEncoding,
    callback?: (error: Error | null | undefined) => void,
  ): boolean;
  writeHead(status: number, headers?: OutgoingHttpHeaders): unknown;
};

export type ResponseOfNode = ServerResponse | Http2ServerResponse;

/** A class, since one is created for each request: methods on the prototype need no closures. */
export abstract class NodeGatewayRequest implements GatewayRequest {
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly #request: NodeRequest;
  readonly #response: ResponseOfNode;

  constructor(request: NodeRequest, response: ResponseOfNode, target: string) {
    this.httpMethod = request.method ?? "";
    this.target = target;
    this.headers = request.headers;
    this.#request = request;
    this.#response = response;
  }

  abstract url(): string;

  abstract contextValues(): ContextValues | undefined;

  get httpVersionMajor(): number {
    return this.#request.httpVersionMajor;
  }

  onAbort(callback: () => void): void {
    const response = this.#response;
    const onClose = (): void => {
      if (!response.writableEnded) {
        callback();
      }
    };
    if (isDestroyed(response)) {
      onClose();
      return;
    }
    response.on("close", onClose);
    if (!("stream" in response) && response.socket === null) {
      onDisconnect(this.#request.socket, response, () => {
        response.off("close", onClose);
        onClose();
      });
    }
  }

  hasBody(): boolean {
    const request = this.#request;
    if ("stream" in request) {
      return !request.stream.endAfterHeaders;
    }
    const length = request.headers["content-length"];
    return length === undefined ? request.headers["transfer-encoding"] !== undefined : length !== "0";
  }

  readBody(maxBytes: number): Promise<Uint8Array> {
    const request = this.#request;
    return request.readableDidRead
      ? Promise.reject(bodyAlreadyRead())
      : readBody(request, request.headers["content-length"], maxBytes);
  }

  streamBody(): AsyncIterable<Uint8Array> {
    if (this.#request.readableDidRead) {
      throw bodyAlreadyRead();
    }
    return streamBody(this.#request);
  }
}

/** The callbacks for a closed connection, for responses queued behind earlier requests. */
const disconnects = new WeakMap<Socket, Set<() => void>>();

/** For a response queued behind earlier ones, which Node 22 does not close with the connection. */
function onDisconnect(socket: Socket, response: ServerResponse, callback: () => void): void {
  const callbacks = disconnects.get(socket) ?? new Set();
  if (!disconnects.has(socket)) {
    disconnects.set(socket, callbacks);
    // One listener, since there may be many such responses.
    socket.once("close", () => callbacks.forEach((each) => each()));
  }
  callbacks.add(callback);
  response.once("close", () => callbacks.delete(callback));
}
