import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { createContextValues, type ContextValues, type HandlerContext } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import type { Deadline } from "./deadline.ts";

/** What a call needs to know of the request that it came with. Nothing is computed until it is asked for. */
export type CallOrigin = {
  readonly httpMethod: string;
  readonly headers: IncomingHttpHeaders;
  url(): string;
  contextValues(): ContextValues | undefined;
  /** Calls back when the client has gone before the answer. */
  onAbort(callback: () => void): void;
};

/**
 * The context of one call. What is costly (headers, the signal, context values) is made when it is
 * first asked for: a call that asks for nothing pays for nothing.
 */
export class CallContext implements HandlerContext {
  readonly method: DescMethod;
  readonly service: DescService;
  readonly requestMethod: string;
  readonly protocolName = "http";
  readonly #origin: CallOrigin;
  readonly #deadline: Deadline | undefined;
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;
  #values: ContextValues | undefined;
  #controller: AbortController | undefined;

  constructor(method: DescMethod, origin: CallOrigin, deadline?: Deadline) {
    this.method = method;
    this.service = method.parent;
    this.requestMethod = origin.httpMethod;
    this.#origin = origin;
    this.#deadline = deadline;
  }

  /** A closure, for an implementation may take it out of its context. */
  get timeoutMs(): () => number | undefined {
    return () => this.#deadline?.remainingMs();
  }

  get url(): string {
    return this.#origin.url();
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      const controller = new AbortController();
      this.#origin.onAbort(() => controller.abort());
      this.#deadline?.expired.catch((error: unknown) => controller.abort(error));
      this.#controller = controller;
    }
    return this.#controller.signal;
  }

  get requestHeader(): Headers {
    return (this.#requestHeader ??= headersOf(this.#origin.headers));
  }

  get responseHeader(): Headers {
    return (this.#responseHeader ??= new Headers());
  }

  get responseTrailer(): Headers {
    return (this.#responseTrailer ??= new Headers());
  }

  get values(): ContextValues {
    return (this.#values ??= this.#origin.contextValues() ?? createContextValues());
  }

  /** The headers that were set for the answer; undefined where nobody asked for them. */
  setHeaders(): Headers | undefined {
    return this.#responseHeader;
  }

  /** The call is over: aborts the signal, if someone holds it, for this reason. */
  finish(reason?: unknown): void {
    this.#deadline?.clear();
    this.#controller?.abort(reason);
  }
}

function headersOf(incoming: IncomingHttpHeaders): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming)) {
    // HTTP/2 pseudo-headers are no headers.
    if (value !== undefined && !name.startsWith(":")) {
      for (const each of Array.isArray(value) ? value : [value]) {
        headers.append(name, each);
      }
    }
  }
  return headers;
}
