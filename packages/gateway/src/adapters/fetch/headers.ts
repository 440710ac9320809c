import type { RequestHeaders } from "../../http/request-headers.ts";

/**
 * The headers of a Request by name. Each is looked up when it is read, since reading all of them takes longer than the rest of
 * a small call: servers create the Headers of a Request only then.
 */
export function lazyHeaders(headers: Headers): RequestHeaders {
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
