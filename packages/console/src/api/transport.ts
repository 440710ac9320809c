import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { QueryClient } from "@tanstack/react-query";
import { apiUrl } from "./paths.ts";

/**
 * Sets a header that pages of other origins can't send. The service requires it of changing calls with a session
 * cookie.
 */
const protectFromForgery: Interceptor = (next) => (request) => {
  request.header.set("X-CSRF-Protection", "1");
  return next(request);
};

/**
 * `fields` are encoded fields that requests have besides those of their messages: encoded messages that follow each other are one. They may
 * be so large that they are encoded once for all requests.
 */
export function createTransport(fields?: Blob): Transport {
  return createConnectTransport({
    baseUrl: apiUrl,
    useBinaryFormat: true,
    interceptors: [protectFromForgery],
    ...(fields !== undefined && {
      fetch: (input, init) =>
        fetch(input, { ...init, body: new Blob([init?.body as Uint8Array<ArrayBuffer>, fields]) }),
    }),
  });
}

/** The cache of API responses. Events invalidate it (live.ts), so there is no polling. */
export function createQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: { queries: { staleTime: 30_000, retry: (failures, error) => isTemporary(error) && failures < 3 } },
  });
}

function isTemporary(error: Error): boolean {
  const { code } = ConnectError.from(error);
  return code === Code.Unavailable || code === Code.Unknown || code === Code.ResourceExhausted;
}

export function isUnauthenticated(error: unknown): boolean {
  return error !== null && error !== undefined && ConnectError.from(error).code === Code.Unauthenticated;
}

export function messageOf(error: unknown): string {
  return ConnectError.from(error).rawMessage;
}
