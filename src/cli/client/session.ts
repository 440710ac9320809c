import { globalAgent as httpAgent } from "node:http";
import { globalAgent as httpsAgent } from "node:https";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
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
import { explainInterruption } from "./explain-interruption.ts";
import { noteCall } from "./failed-call.ts";

export type Session = {
  readonly audit: Client<typeof AuditService>;
  readonly auth: Client<typeof AuthService>;
  readonly flows: Client<typeof FlowsService>;
  readonly revisions: Client<typeof RevisionsService>;
  readonly runtime: Client<typeof RuntimeService>;
  readonly settings: Client<typeof SettingsService>;
  readonly tokens: Client<typeof TokensService>;
};

/** How long a read may take unless `--timeout` says otherwise. A deployment has no limit, since its flows have to start. */
const readTimeoutMs = 60_000;

/** More than the flows of any server. Bounds the memory that a response takes, also when it is compressed. */
const maxResponseBytes = 256 * 1024 * 1024;

/** Clients of all services of a server. Nothing is sent until the first call. */
export function openSession(
  { server, baseUrl, socketPath, token, tls, timeoutMs }: Connection,
  progress: Progress,
): Session {
  const transport = createConnectTransport({
    httpVersion: "1.1",
    baseUrl,
    readMaxBytes: maxResponseBytes,
    interceptors: [
      (next) => (request) => progress.during(`Waiting for ${server}`, () => next(request)),
      noteCall,
      explainInterruption,
      ...(timeoutMs === undefined ? [limitReads] : []),
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

/** Closes all connections. One whose request was rejected before it was sent completely would keep the process alive. */
export function closeConnections(): void {
  httpAgent.destroy();
  httpsAgent.destroy();
}

function authorize(token: string): Interceptor {
  return (next) => (request) => {
    request.header.set("authorization", `Bearer ${token}`);
    return next(request);
  };
}

const limitReads: Interceptor = (next) => async (request) => {
  if (request.stream || request.method.idempotency !== MethodOptions_IdempotencyLevel.NO_SIDE_EFFECTS) {
    return next(request);
  }
  const limit = new AbortController();
  const timer = setTimeout(
    () => limit.abort(new ConnectError("the operation timed out", Code.DeadlineExceeded)),
    readTimeoutMs,
  );
  try {
    return await next({ ...request, signal: AbortSignal.any([request.signal, limit.signal]) });
  } finally {
    clearTimeout(timer);
  }
};
