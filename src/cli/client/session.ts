import type { Interceptor } from "@connectrpc/connect";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import {
  AuditService,
  AuthService,
  FlowsService,
  RevisionsService,
  RuntimeService,
  SettingsService,
  TokensService,
  retryInterceptor,
} from "@flowgate/client";
import type { Progress } from "../output/progress.ts";
import type { Connection } from "./connection.ts";

export type Session = ReturnType<typeof openSession>;

/** Clients of all services of a server. Nothing is sent until the first call. */
export function openSession({ server, baseUrl, socketPath, token, tls, timeoutMs }: Connection, progress: Progress) {
  const transport = createConnectTransport({
    httpVersion: "1.1",
    baseUrl,
    interceptors: [
      (next) => (request) => progress.during(`Waiting for ${server}`, () => next(request)),
      retryInterceptor(),
      ...(token === undefined ? [] : [authorize(token)]),
    ],
    nodeOptions: socketPath === undefined ? tls : { socketPath },
    ...(timeoutMs !== undefined && { defaultTimeoutMs: timeoutMs }),
  });
  return {
    audit: createClient(AuditService, transport),
    auth: createClient(AuthService, transport),
    flows: createClient(FlowsService, transport),
    revisions: createClient(RevisionsService, transport),
    runtime: createClient(RuntimeService, transport),
    settings: createClient(SettingsService, transport),
    tokens: createClient(TokensService, transport),
  };
}

function authorize(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
}
