import type { ContextValues } from "@connectrpc/connect";
import { concatBytes } from "#platform/bytes";
import type { GatewayRequest, RequestHeaders } from "../../http/request.ts";
import { BodyTooLargeError } from "../../http/request-error.ts";
import { bodyAlreadyRead, incompleteBody } from "../body-errors.ts";

/** A class, since one is created for each request: methods on the prototype need no closures. */
export class FetchGatewayRequest implements GatewayRequest {
  readonly httpMethod: string;
  readonly httpVersionMajor: number;
  readonly target: string;
  readonly headers: RequestHeaders;
  readonly #request: Request;
  readonly #contextValues: () => ContextValues | undefined;

  constructor(
    request: Request,
    target: string,
    httpVersionMajor: number,
    contextValues: () => ContextValues | undefined,
  ) {
    this.httpMethod = request.method;
    this.httpVersionMajor = httpVersionMajor;
    this.target = target;
    this.headers = lazyHeaders(request.headers);
    this.#request = request;
    this.#contextValues = contextValues;
  }

  url(): string {
    return this.#request.url;
  }

  contextValues(): ContextValues | undefined {
    return this.#contextValues();
  }

  onAbort(callback: () => void): void {
    const { signal } = this.#request;
    if (signal.aborted) {
      callback();
    } else {
      signal.addEventListener("abort", callback, { once: true });
    }
  }

  hasBody(): boolean {
    const { httpMethod, headers } = this;
    const length = headers["content-length"];
    if (httpMethod === "GET" || httpMethod === "HEAD" || length === "0") {
      return false;
    }
    return length !== undefined || this.#request.body !== null;
  }

  async readBody(maxBytes: number): Promise<Uint8Array> {
    const length = this.headers["content-length"];
    if (length !== undefined && Number(length) > maxBytes) {
      throw new BodyTooLargeError(maxBytes);
    }
    const bytes = length === undefined ? await this.#collectBody(maxBytes) : await this.#readAll();
    // A Request that no server has created can have another length than its header says.
    if (bytes.length > maxBytes) {
      throw new BodyTooLargeError(maxBytes);
    }
    return bytes;
  }

  async *streamBody(): AsyncGenerator<Uint8Array> {
    if (this.#request.bodyUsed) {
      throw bodyAlreadyRead();
    }
    const reader = this.#request.body?.getReader();
    try {
      for (;;) {
        const chunk = await reader?.read();
        if (chunk === undefined || chunk.done) {
          return;
        }
        yield chunk.value;
      }
    } catch {
      throw incompleteBody();
    } finally {
      reader?.releaseLock();
    }
  }

  async #readAll(): Promise<Uint8Array> {
    if (this.#request.bodyUsed) {
      throw bodyAlreadyRead();
    }
    try {
      return new Uint8Array(await this.#request.arrayBuffer());
    } catch {
      throw incompleteBody();
    }
  }

  async #collectBody(maxBytes: number): Promise<Uint8Array> {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of this.streamBody()) {
      length += chunk.length;
      if (length > maxBytes) {
        throw new BodyTooLargeError(maxBytes);
      }
      chunks.push(chunk);
    }
    return concatBytes(chunks);
  }
}

/**
 * The headers of a Request by name. Each is looked up when it is read, since reading all of them takes longer than the rest of
 * a small call: servers create the Headers of a Request only then.
 */
function lazyHeaders(headers: Headers): RequestHeaders {
  return new Proxy<Record<string, string>>({}, new LazyHeaders(headers));
}

/** A class, since one is created for each request: methods on the prototype need no closures. */
class LazyHeaders implements ProxyHandler<Record<string, string>> {
  readonly #headers: Headers;

  constructor(headers: Headers) {
    this.#headers = headers;
  }

  get(_target: unknown, name: string | symbol): string | undefined {
    return typeof name === "string" ? (this.#headers.get(name) ?? undefined) : undefined;
  }

  has(_target: unknown, name: string | symbol): boolean {
    return typeof name === "string" && this.#headers.has(name);
  }

  /** Set-Cookie can be listed several times. */
  ownKeys(): string[] {
    return [...new Set(this.#headers.keys())];
  }

  getOwnPropertyDescriptor(_target: unknown, name: string | symbol): PropertyDescriptor | undefined {
    const value = this.get(undefined, name);
    return value === undefined ? undefined : { value, enumerable: true, configurable: true };
  }
}
