import type { DescMethod, DescService } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ContextKey,
  createContextValues,
  type ContextValues,
  type HandlerContext,
  createContextKey,
} from "@connectrpc/connect";
import type { CallOrigin, RequestHeaders } from "../http/request.ts";
import { addHeaders, type GatewayResponse } from "../http/response.ts";
import type { Deadline } from "./deadline.ts";

/**
 * The context of a call. Expensive properties (headers, signal, context values) are created on first access, so that
 * calls which do not use them have no overhead.
 */
export class CallContext implements HandlerContext {
  readonly method: DescMethod;
  readonly service: DescService;
  readonly requestMethod: string;
  readonly protocolName: string;
  readonly #origin: CallOrigin;
  readonly #deadline: Deadline | undefined;
  readonly #httpRoute: string | undefined;
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;
  #values: ContextValues | undefined;
  #passedValues: ContextValues | undefined;
  #controller: AbortController | undefined;
  #isObservingClient = false;
  #isFinished = false;
  #reason: unknown;

  constructor(method: DescMethod, protocolName: string, origin: CallOrigin, deadline?: Deadline, httpRoute?: string) {
    this.method = method;
    this.protocolName = protocolName;
    this.service = method.parent;
    this.requestMethod = origin.httpMethod;
    this.#origin = origin;
    this.#deadline = deadline;
    this.#httpRoute = httpRoute;
  }

  /**
   * A closure, since implementations may destructure the context. Whole milliseconds, as the header Connect-Timeout-Ms of a call
   * that passes the timeout on requires; 0 only after the deadline.
   */
  get timeoutMs(): () => number | undefined {
    return () => this.#deadline && Math.ceil(this.#deadline.remainingMs());
  }

  get url(): string {
    return this.#origin.url();
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#isFinished) {
        this.#controller.abort(this.#reason);
      } else {
        this.observeClient();
        // `then(null)`: after the other observers, since a stream's reaction to the signal must not become its result.
        this.#deadline?.expired.then(null).catch((error: unknown) => this.#end(error));
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
    if (this.#values === undefined) {
      this.#values = this.#origin.contextValues() ?? createContextValues();
      if (this.#httpRoute !== undefined) {
        this.#values.set(kHttpRoute, this.#httpRoute);
      }
    }
    return this.#values;
  }

  /** Replaces the context values for the implementation, as an interceptor can. */
  passOnValues(values: ContextValues): void {
    this.#passedValues = values;
  }

  /** A value that the implementation or an interceptor has set, without creating the context values. */
  existingValue<T>(key: ContextKey<T | undefined>): T | undefined {
    return this.#passedValues?.get(key) ?? this.#values?.get(key);
  }

  /** The response headers, without creating them: undefined if they were not accessed. */
  existingResponseHeader(): Headers | undefined {
    return this.#responseHeader;
  }

  /** The response trailers, without creating them: undefined if they were not accessed. */
  existingResponseTrailer(): Headers | undefined {
    return this.#responseTrailer;
  }

  /** Observes the client's connection, so that `throwIfAborted` detects a disconnect. To be called before awaiting anything. */
  observeClient(): void {
    if (!this.#isObservingClient) {
      this.#isObservingClient = true;
      this.#origin.onAbort(() => this.#end());
    }
  }

  /** Throws a ConnectError if the deadline has expired, or the call has been cancelled. */
  throwIfAborted(): void {
    if (this.#deadline?.remainingMs() === 0) {
      throw this.#deadline.error;
    }
    if (this.#isFinished) {
      throw new ConnectError("the client has disconnected", Code.Canceled);
    }
  }

  /** True if the error is a mere consequence of the end of the call: its client has disconnected. */
  isAbortError(error: unknown): boolean {
    return this.#isFinished && error instanceof Error && error.name === "AbortError";
  }

  /** Ends the call: clears the deadline, and aborts the signal, also one that is accessed later, with `reason`. */
  finish(reason?: unknown): void {
    this.#deadline?.clear();
    this.#end(reason);
  }

  #end(reason?: unknown): void {
    if (!this.#isFinished) {
      this.#isFinished = true;
      this.#reason = reason;
      this.#controller?.abort(reason);
    }
  }
}

/** The headers that the implementation has set, without reserved names. */
export function setHeadersOf(context: CallContext): GatewayResponse["headers"] {
  const headers: GatewayResponse["headers"] = {};
  const set = context.existingResponseHeader();
  if (set !== undefined) {
    addHeaders(headers, set);
  }
  return headers;
}

function headersOf(incoming: RequestHeaders): Headers {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming)) {
    // HTTP/2 pseudo-headers are omitted.
    if (value !== undefined && !name.startsWith(":")) {
      for (const each of Array.isArray(value) ? value : [value]) {
        headers.append(name, each);
      }
    }
  }
  return headers;
}

/**
 * The path template of a REST request as in the .proto, such as `/v1/books/{id}`, for interceptors: the `http.route` of OpenTelemetry.
 * Undefined for other protocols.
 */
export const kHttpRoute: ContextKey<string | undefined> = createContextKey<string | undefined>(undefined, {
  description: "path template of a REST request",
});

/**
 * The HTTP status of a successful REST response, from 200 to 399, chosen by the implementation:
 * `context.values.set(kHttpStatus, 201)`. 204, 205 and 304 have no body. Other protocols ignore it. An OpenAPI document
 * contains the statuses that the method declares in `other_statuses`. Default: the status of the method.
 */
export const kHttpStatus: ContextKey<number | undefined> = createContextKey<number | undefined>(undefined, {
  description: "status of a REST response",
});
