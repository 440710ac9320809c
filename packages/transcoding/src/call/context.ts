import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Code, ConnectError, createContextValues, type ContextValues, type HandlerContext } from "@connectrpc/connect";
import type { IncomingHttpHeaders } from "node:http";
import type { CallOrigin } from "../http/request.ts";
import type { Deadline } from "./deadline.ts";

/**
 * The context of one call. What is costly (headers, the signal, context values) is made when it is
 * first asked for: a call that asks for nothing pays for nothing.
 */
export class CallContext implements HandlerContext {
  readonly method: DescMethod;
  readonly service: DescService;
  readonly requestMethod: string;
  readonly protocolName: string;
  readonly #origin: CallOrigin;
  readonly #deadline: Deadline | undefined;
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;
  #values: ContextValues | undefined;
  #controller: AbortController | undefined;
  #isListening = false;
  #isOver = false;
  #reason: unknown;

  constructor(method: DescMethod, protocolName: string, origin: CallOrigin, deadline?: Deadline) {
    this.method = method;
    this.protocolName = protocolName;
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
      this.#controller = new AbortController();
      if (this.#isOver) {
        this.#controller.abort(this.#reason);
      } else {
        this.listen();
        this.#deadline?.expired.catch((error: unknown) => this.#end(error));
      }
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

  /** The trailers that were set for the answer; undefined where nobody asked for them. */
  setTrailers(): Headers | undefined {
    return this.#responseTrailer;
  }

  /** For whoever waits before the call begins: `assertAwaited` knows of a client that goes only from now on. */
  listen(): void {
    if (!this.#isListening) {
      this.#isListening = true;
      this.#origin.onAbort(() => this.#end());
    }
  }

  /** Throws where nobody waits for the call any more: its time is up, or its client has gone. */
  assertAwaited(): void {
    if (this.#deadline?.remainingMs() === 0) {
      throw this.#deadline.error;
    }
    if (this.#isOver) {
      throw new ConnectError("the client has gone", Code.Canceled);
    }
  }

  /** The call is over: aborts the signal, also one that is asked for later, for this reason. */
  finish(reason?: unknown): void {
    this.#deadline?.clear();
    this.#end(reason);
  }

  #end(reason?: unknown): void {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#reason = reason;
      this.#controller?.abort(reason);
    }
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
