import { randomBytes } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { type Code, type ContextValues, createContextValues } from "@connectrpc/connect";
import type { GatewayRequest, GatewayResponse } from "@flowgate/gateway";
import { addVary, type BodyReservation, codeOfStatus, smallBodyBytes } from "@flowgate/gateway/server";
import { type Context, ROOT_CONTEXT } from "@opentelemetry/api";
import { type BrowserSession, clientKeyOf, type ClientKind, type Peer, peerKey } from "../../auth/caller.ts";
import type { FlowgateError } from "@flowgate/flows/errors";
import type { Observer } from "../../telemetry/observer.ts";
import { traceIds, type TraceIds } from "@flowgate/base/spans";
import { traceKey } from "../../telemetry/trace.ts";
import type { Exchange, ExchangeObserver } from "../http/exchange.ts";
import type { MemoryBudget, MemoryReservation } from "../memory/memory-budget.ts";
import type { ClientReader, ReadWorkload } from "./client.ts";
import { RequestRecord } from "./request-record.ts";
import type { FindCookies, SessionCookies } from "./session-cookie.ts";

/** The handler of a request, with its properties. */
export type RequestRoute = {
  /** The protocol family, which determines the format of errors. */
  readonly kind: "rpc" | "rest" | "endpoint";
  readonly method: DescMethod | undefined;
  /** The URL template, if there is one. */
  readonly template?: string | undefined;
  /** Exempt from load shedding. */
  readonly isExempt: boolean;
  /** Serves the request; must not throw or reject. */
  serve(request: RequestContext): GatewayResponse | Promise<GatewayResponse>;
};

export type RequestEnvironment = {
  readonly client: ClientReader;
  /** The client's X-Request-Id, or a new id. */
  readonly requestIdOf: (headers: IncomingHttpHeaders) => string;
  /** undefined: workloads are not identified. */
  readonly readWorkload: ReadWorkload | undefined;
  /** undefined: browsers have no sessions. */
  readonly findCookies: FindCookies | undefined;
  readonly observer: Observer;
  /** undefined: the memory of bodies is not limited. */
  readonly memory: MemoryBudget | undefined;
  /** Throws if the message of a body of more than 64 KiB would take too much memory. undefined: no limit. */
  readonly assertDecodable: ((request: RequestContext, body: Uint8Array) => void) | undefined;
  /** Called after each request. */
  readonly onEnd: ((request: RequestContext) => void) | undefined;
  /** Must not throw. */
  readonly findRoute: (request: RequestContext) => RequestRoute;
};

/** A request in the pipeline, of any protocol. Expensive properties are computed on first access. */
export class RequestContext implements GatewayRequest, Peer, ExchangeObserver, BodyReservation {
  readonly exchange: Exchange;
  readonly httpMethod: string;
  readonly headers: IncomingHttpHeaders;
  readonly record: RequestRecord;
  /** In origin form (RFC 9112, section 3.2.1). */
  readonly target: string;
  readonly path: string;
  /** The client's address, with regard to trusted proxies. */
  readonly address: string;
  readonly workload: (() => string | undefined) | undefined;
  overloaded: (() => FlowgateError) | undefined;
  /** The format of the messages; set when the call begins. */
  messageFormat: "proto" | "json" = "json";
  readonly #environment: RequestEnvironment;
  #route: RequestRoute | undefined;
  #requestId: string | undefined;
  #responseHeaders: Record<string, string> | undefined;
  #values: ContextValues | undefined;
  #onClose: (() => void) | undefined;
  #onAbort: (() => void) | undefined;
  #memory: MemoryReservation | undefined;
  #documentBytes = 0;

  constructor(exchange: Exchange, environment: RequestEnvironment, trace: Context) {
    this.exchange = exchange;
    this.#environment = environment;
    this.httpMethod = exchange.method;
    this.headers = exchange.headers;
    this.record = new RequestRecord(trace, this.headers["content-type"]);
    this.target = originFormOf(exchange.target);
    const question = this.target.indexOf("?");
    this.path = question === -1 ? this.target : this.target.slice(0, question);
    this.address = environment.client.addressOf(exchange);
    const { readWorkload } = environment;
    this.workload = readWorkload && (() => readWorkload(exchange));
  }

  get httpVersionMajor(): number {
    return this.exchange.httpVersionMajor;
  }

  get route(): RequestRoute {
    if (this.#route === undefined) {
      this.#route = this.#environment.findRoute(this);
      this.record.routed(this.#route.method, this.#route.kind);
    }
    return this.#route;
  }

  get requestId(): string {
    return (this.#requestId ??= this.#environment.requestIdOf(this.headers));
  }

  /** The requested authority, with regard to trusted proxies. */
  get host(): string {
    return this.#environment.client.hostOf(this.exchange);
  }

  get authorization(): string | null {
    return this.headers.authorization ?? null;
  }

  get session(): BrowserSession | undefined {
    if (this.headers.authorization !== undefined || this.headers.cookie === undefined) {
      return undefined;
    }
    const session = this.cookies?.read(this.headers);
    if (session !== undefined) {
      // Shared caches know that a response depends on Authorization, but not that it depends on a cookie.
      this.setResponseHeader("cache-control", "private, no-cache");
    }
    return session;
  }

  /** The cookies that the request can have; undefined: no session. */
  get cookies(): SessionCookies | undefined {
    const { client, findCookies } = this.#environment;
    return findCookies?.(client.schemeOf(this.exchange), this.host, () => client.isFromElsewhere(this.exchange));
  }

  get traceIds(): TraceIds {
    return traceIds(this.record.trace);
  }

  url(): string {
    return `${this.#environment.client.schemeOf(this.exchange)}://${this.host}${this.target}`;
  }

  contextValues(): ContextValues {
    if (this.#values === undefined) {
      this.#values = createContextValues().set(peerKey, this);
      if (this.record.trace !== ROOT_CONTEXT) {
        this.#values.set(traceKey, this.record.trace);
      }
    }
    return this.#values;
  }

  get clientKind(): ClientKind {
    return this.exchange.origin.kind;
  }

  authenticated(): void {
    this.exchange.isAuthenticated = true;
    this.exchange.origin.isAuthenticated = true;
  }

  hasBody(): boolean {
    return this.exchange.hasBody();
  }

  readBody(maxBytes: number): Promise<Uint8Array> {
    const { "content-length": length } = this.headers;
    if (length === undefined) {
      return this.exchange.readBody(maxBytes, this);
    }
    const bytes = Number(length);
    const wait = bytes > smallBodyBytes && bytes <= maxBytes ? this.receive(bytes) : undefined;
    return wait === undefined ? this.exchange.readBody(maxBytes) : wait.then(() => this.exchange.readBody(maxBytes));
  }

  streamBody(): AsyncIterable<Uint8Array> {
    return this.exchange.streamBody();
  }

  receive(bytes: number): Promise<void> | undefined {
    return this.memory?.receive(bytes);
  }

  reserve(bytes: number, body?: Uint8Array): Promise<void> | undefined {
    if (body !== undefined) {
      this.#environment.assertDecodable?.(this, body);
    }
    return this.memory?.decode(bytes);
  }

  reserveDocument(bytes: number): Promise<void> | undefined {
    this.#documentBytes += bytes;
    return bytes > smallBodyBytes ? this.receive(this.#documentBytes * responseFactor) : undefined;
  }

  retainMemory(): () => void {
    return this.memory?.retain() ?? (() => {});
  }

  documentDecoded(bytes: number): void {
    this.memory?.decoded(bytes);
  }

  /** The request's share of the memory budget; undefined without one. */
  get memory(): MemoryReservation | undefined {
    const { memory } = this.#environment;
    if (this.#memory === undefined && memory !== undefined) {
      const reservation = memory.open(clientKeyOf(this.address));
      this.#memory = reservation;
      if (this.exchange.isClosed) {
        reservation.close();
      } else {
        this.onClose(() => reservation.close());
      }
    }
    return this.#memory;
  }

  onAbort(callback: () => void): void {
    if (this.exchange.isClosed) {
      if (!this.exchange.isSent) {
        callback();
      }
    } else {
      this.#onAbort = callBoth(this.#onAbort, callback);
    }
  }

  onClose(callback: () => void): void {
    this.#onClose = callBoth(this.#onClose, callback);
  }

  /** Sets a header of any response to this request. A header of the same name in the response itself takes precedence. */
  setResponseHeader(name: string, value: string): void {
    (this.#responseHeaders ??= {})[name] = value;
  }

  /** Records that a call of this method begins, and makes its span the active trace. */
  begin(method: DescMethod, format: "proto" | "json"): void {
    this.messageFormat = format;
    this.record.begin(method, this);
  }

  /** Records a failure. Only the first one counts. */
  fail(code: Code): void {
    this.record.fail(code);
  }

  /** Sends the response. `keepsConnection`: even if a long request body has to be drained. */
  send(response: GatewayResponse, keepsConnection = false): void {
    const { headers } = response;
    headers["x-request-id"] = this.requestId;
    if (!keepsConnection && this.exchange.hasLongUnreadBody) {
      headers["connection"] = "close";
    }
    const added = this.#responseHeaders;
    for (const name in added) {
      const value = added[name] as string;
      if (name === "vary") {
        addVary(headers, value);
      } else {
        headers[name] ??= value;
      }
    }
    this.exchange.send(response);
  }

  closed(): void {
    const { record, exchange } = this;
    this.#onClose?.();
    if (!exchange.isSent) {
      this.#onAbort?.();
    }
    const { observer, onEnd } = this.#environment;
    const outcome = record.end(exchange.isSent, exchange.status);
    observer.requestEnded(record.method, record.protocol, outcome, (performance.now() - record.startMs) / 1000);
    onEnd?.(this);
  }

  interrupted(status: number): void {
    this.fail(codeOfStatus(status));
  }
}

/** A document is held with the response that contains it, or with its copy for a thread. */
const responseFactor = 2;

function callBoth(first: (() => void) | undefined, second: () => void): () => void {
  if (first === undefined) {
    return second;
  }
  return () => {
    first();
    second();
  };
}

/** A client may send the absolute form to any server (RFC 9112, section 3.2.2). */
function originFormOf(target: string): string {
  return target.startsWith("/") ? target : target.replace(/^https?:\/\/[^/?#]*/i, "") || "/";
}

/**
 * Creates a function that returns the id of a request: the client's X-Request-Id if it is 1 to 128 characters of printable ASCII, otherwise a
 * new one, made of a random prefix per process and a counter.
 */
export function createRequestIds(): (headers: IncomingHttpHeaders) => string {
  const prefix = randomBytes(6).toString("base64url");
  let count = 0;
  return ({ "x-request-id": requestId }) => {
    if (typeof requestId === "string" && /^[\x21-\x7e]{1,128}$/.test(requestId)) {
      return requestId;
    }
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}
