import type { Server } from "node:http";

/** What a test has sent, and what a server has answered. */
export type Exchange = {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly type: string;
  readonly body: string;
};

/** A request of supertest, as far as the tests use it. */
type SupertestRequest = {
  set(...args: unknown[]): unknown;
  send(...args: unknown[]): unknown;
  parse(...args: unknown[]): unknown;
  expect(...args: unknown[]): unknown;
  end(callback: Callback): unknown;
};
type Outcome = readonly [error: unknown, response: SupertestResponse | undefined];
type Callback = (error: unknown, response?: SupertestResponse) => void;
type SupertestResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text?: string;
  readonly body: unknown;
};

const verbs = ["get", "post", "put", "delete", "del", "patch"] as const;
type Verb = (typeof verbs)[number];
export type Supertest = (server: Server | string) => Record<Verb, (path: string) => SupertestRequest>;

/** Where requests are sent instead. */
type Destination = {
  readonly url: string;
  /** The path of the server, for one of the tests. */
  pathOf(path: string): string;
  /** Called before a request is sent, with the exchange of the test's own router. */
  prepare(exchange: Exchange): Promise<void>;
};

/** What requests are sent to besides their own servers, and who gets to know the responses. */
export type Forwarding = {
  /** Absent: the tests get the responses of their own servers. */
  readonly destination: Destination | undefined;
  readonly report: (exchange: Exchange) => void;
};

/**
 * Makes supertest send each request twice: to the server of the test, whose stubs count it, and then to the destination, whose response the
 * test gets.
 */
export function forwardRequests(supertest: Supertest, forwarding: Forwarding): Supertest {
  return (server) => {
    const start =
      (verb: Verb) =>
      (path: string): SupertestRequest =>
        new ForwardedRequest(supertest, server, verb, path, forwarding);
    return Object.fromEntries(verbs.map((verb) => [verb, start(verb)])) as ReturnType<Supertest>;
  };
}

class ForwardedRequest implements SupertestRequest {
  readonly #own: SupertestRequest;
  readonly #forwarded: SupertestRequest | undefined;
  readonly #forwarding: Forwarding;
  readonly #target: Pick<Exchange, "method" | "path">;

  constructor(supertest: Supertest, server: Server | string, verb: Verb, path: string, forwarding: Forwarding) {
    const { destination } = forwarding;
    const target = destination?.pathOf(path) ?? path;
    this.#own = supertest(server)[verb](path);
    this.#forwarded = destination && supertest(destination.url)[verb](target);
    this.#forwarding = forwarding;
    this.#target = { method: verb === "del" ? "DELETE" : verb.toUpperCase(), path: target };
  }

  set(...args: unknown[]): this {
    return this.#both("set", args);
  }

  send(...args: unknown[]): this {
    return this.#both("send", args);
  }

  parse(...args: unknown[]): this {
    return this.#both("parse", args);
  }

  #both(name: "set" | "send" | "parse", args: unknown[]): this {
    this.#own[name](...args);
    this.#forwarded?.[name](...args);
    return this;
  }

  /** The last argument may be the callback of `end`. */
  expect(...args: unknown[]): this {
    const last = args.at(-1);
    const isLast = typeof last === "function";
    (this.#forwarded ?? this.#own).expect(...(isLast ? args.slice(0, -1) : args));
    return isLast ? this.end(last as Callback) : this;
  }

  end(callback: Callback): this {
    void this.#answer().then(([error, response]) => {
      if (response !== undefined) {
        this.#forwarding.report(this.#toExchange(response));
      }
      // Not within the promise, which would take what the test throws.
      setImmediate(callback, error, response);
    });
    return this;
  }

  async #answer(): Promise<Outcome> {
    const own = await settle(this.#own);
    const [, response] = own;
    const { destination } = this.#forwarding;
    if (response === undefined || destination === undefined || this.#forwarded === undefined) {
      return own;
    }
    try {
      await destination.prepare(this.#toExchange(response));
    } catch (error) {
      return [error, undefined];
    }
    return settle(this.#forwarded);
  }

  #toExchange(response: SupertestResponse): Exchange {
    return { ...this.#target, ...readResponse(response) };
  }
}

function settle(request: SupertestRequest): Promise<Outcome> {
  return new Promise((resolve) => request.end((error, response) => resolve([error, response])));
}

function readResponse({ status, headers, text, body }: SupertestResponse): Pick<Exchange, "status" | "type" | "body"> {
  return {
    status,
    type: (headers["content-type"] ?? "").replace(/;.*/, ""),
    body: text ?? (body instanceof Buffer ? body.toString("latin1") : ""),
  };
}
