import { lookup as resolve, type LookupAddress } from "node:dns";
import { type ClientRequest, type IncomingMessage, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { isIP, type LookupFunction } from "node:net";
import type { TargetPolicy } from "./target-policy.ts";

export type WebhookRequest = {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

export type SendOptions = {
  readonly policy: TargetPolicy;
  /** For everything from the name of the host to the status of the response. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
};

export type WebhookResponse = {
  readonly status: number;
  /** From Retry-After, if it is a number of seconds. */
  readonly retryAfterMs: number | undefined;
};

/** The maximum part of a response body that is read. */
const maxResponseBytes = 16 * 1024;

/**
 * Sends a request over a connection of its own, without following redirects. Addresses are checked when they are connected to, so that
 * a name which resolves to another address the next time gains nothing. Rejects if there is no response; the message has neither
 * the path nor the query of the URL.
 */
export function sendWebhook({ url, headers, body }: WebhookRequest, options: SendOptions): Promise<WebhookResponse> {
  const { policy, timeoutMs } = options;
  const port = Number(url.port) || (url.protocol === "https:" ? 443 : 80);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  // Addresses are not looked up.
  const denial = isIP(host) === 0 ? undefined : policy.findDenial(host, host, port);
  if (denial !== undefined) {
    return Promise.reject(new Error(`${host}: ${denial}`));
  }
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = AbortSignal.any([options.signal, timeout]);
  const request = (url.protocol === "https:" ? requestHttps : requestHttp)(url, {
    method: "POST",
    agent: false,
    signal,
    lookup: createLookup(policy, host, port, signal),
    headers: { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) },
  });
  const { promise, resolve: succeed, reject } = Promise.withResolvers<WebhookResponse>();
  request.once("response", (response) => {
    discard(request, response);
    const seconds = /^\d{1,6}$/.exec(response.headers["retry-after"] ?? "")?.[0];
    succeed({
      status: response.statusCode ?? 0,
      retryAfterMs: seconds === undefined ? undefined : Number(seconds) * 1_000,
    });
  });
  request.once("close", () => reject(new Error("the connection was closed without a response")));
  request.on("error", (error) => {
    reject(timeout.aborted ? new Error(`no response within ${timeoutMs / 1_000} s`) : error);
  });
  request.end(body);
  return promise;
}

/** Reads some of the body, so that the receiver can send it, and closes the connection. */
function discard(request: ClientRequest, response: IncomingMessage): void {
  let bytes = 0;
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > maxResponseBytes) {
      request.destroy();
    }
  });
  response.on("end", () => request.destroy());
  response.on("error", () => {});
}

/** Resolves a name to the addresses that the policy permits. */
function createLookup(policy: TargetPolicy, host: string, port: number, signal: AbortSignal): LookupFunction {
  return (hostname, options, callback) => {
    queueLookup(signal, (onEnd) => {
      resolve(hostname, { ...options, all: true }, (error, addresses) => {
        onEnd();
        if (error !== null) {
          callback(error, []);
          return;
        }
        const denials = addresses.map(({ address }) => policy.findDenial(host, address, port));
        const permitted = addresses.filter((_, at) => denials[at] === undefined);
        const [first] = permitted;
        if (first === undefined) {
          const [address] = addresses as [LookupAddress];
          callback(new Error(`${host} (${address.address}): ${denials[0]}`), []);
        } else if (options.all === true) {
          callback(null, permitted);
        } else {
          callback(null, first.address, first.family);
        }
      });
    });
  };
}

/** Resolves when all lookups have ended. */
let lookups = Promise.resolve();

/**
 * Starts a lookup after the earlier ones, unless its request has ended by then. A lookup can't be cancelled, and
 * occupies one of the few threads of the process that also access files: slow name servers must not occupy all of them.
 */
function queueLookup(signal: AbortSignal, start: (onEnd: () => void) => void): void {
  lookups = lookups.then(() => (signal.aborted ? undefined : new Promise<void>(start)));
}
