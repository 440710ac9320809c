import { globalAgent as httpAgent } from "node:http";
import { globalAgent as httpsAgent } from "node:https";
import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { MethodOptions_IdempotencyLevel } from "@bufbuild/protobuf/wkt";
import { type Client, Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import {
  AuditService,
  AuthService,
  ContextService,
  EventsService,
  FlowsService,
  LibraryService,
  LogsService,
  ModulesService,
  permits,
  ProposalsService,
  retryInterceptor,
  RevisionsService,
  RuntimeService,
  SettingsService,
  TokensService,
} from "@flowgate/client";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Progress } from "../output/progress.ts";
import type { Connection } from "./connection.ts";

const services = {
  audit: AuditService,
  auth: AuthService,
  context: ContextService,
  events: EventsService,
  flows: FlowsService,
  library: LibraryService,
  logs: LogsService,
  modules: ModulesService,
  proposals: ProposalsService,
  revisions: RevisionsService,
  runtime: RuntimeService,
  settings: SettingsService,
  tokens: TokensService,
};

/** Clients of all services of a server. */
export type ClientSession = { readonly [Name in keyof typeof services]: Client<(typeof services)[Name]> };

/** How long a read may take unless `--timeout` says otherwise. A deployment has no limit, since its flows have to start. */
const readTimeoutMs = 60_000;

/** More than the flows of any server. Bounds the memory that a response takes, also when it is compressed. */
const maxResponseBytes = 256 * 1024 * 1024;

/** Nothing is sent until the first call. */
export function openSession(
  connection: Pick<Connection, "server" | "baseUrl" | "socketPath" | "token" | "login" | "tls" | "timeoutMs">,
  progress: Progress,
): ClientSession {
  const { server, baseUrl, socketPath, token, tls, timeoutMs } = connection;
  const transport = createConnectTransport({
    httpVersion: "1.1",
    baseUrl,
    readMaxBytes: maxResponseBytes,
    interceptors: [
      (next) => (request) => progress.during(`Waiting for ${server}`, () => next(request)),
      noteCall,
      interrupt,
      ...(timeoutMs === undefined ? [limitReads] : []),
      retryInterceptor(),
      ...(token === undefined ? [] : [authorize(token, connection)]),
    ],
    nodeOptions: socketPath === undefined ? tls : { socketPath },
    ...(timeoutMs !== undefined && { defaultTimeoutMs: timeoutMs }),
  });
  const clients = Object.entries(services).map(([name, service]) => [
    name,
    createClient<DescService>(service, transport),
  ]);
  return Object.fromEntries(clients) as ClientSession;
}

/** The result of a call; undefined if it fails with this code. */
export async function unless<T>(code: Code, call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ConnectError && error.code === code) {
      return undefined;
    }
    throw error;
  }
}

/**
 * The result of a call; undefined if this user may not make it: lacks its permission, or, without a token, is unauthenticated. The permissions
 * are read before, since the service records a call that it refuses in the audit log.
 */
export async function ifPermitted<T>(
  session: ClientSession,
  permission: string,
  call: () => Promise<T>,
): Promise<T | undefined> {
  const known = await readPermissions(session);
  return known === undefined || permits(known, permission) ? unlessDenied(call()) : undefined;
}

function unlessDenied<T>(call: Promise<T>): Promise<T | undefined> {
  return unless(Code.Unauthenticated, unless(Code.PermissionDenied, call));
}

const permissionsOf = new WeakMap<ClientSession, Promise<readonly string[] | undefined>>();

/** Undefined: they are not known, as those of callers without a token. */
function readPermissions(session: ClientSession): Promise<readonly string[] | undefined> {
  const read = async (): Promise<readonly string[] | undefined> => {
    const identity = await unlessDenied(session.auth.getIdentity({}));
    return identity?.permissions;
  };
  const permissions = permissionsOf.get(session) ?? read();
  permissionsOf.set(session, permissions);
  return permissions;
}

/** Closes all connections. One whose request was rejected before it was sent completely would keep the process alive. */
export function closeConnections(): void {
  httpAgent.destroy();
  httpsAgent.destroy();
}

function authorize(token: string, connection: Pick<Connection, "server" | "token" | "login">): Interceptor {
  let renewal: (() => Promise<string>) | undefined;
  /** Loads what renews a token only if it can be renewed. */
  const readToken = async (): Promise<string> => {
    if (connection.login?.refreshToken === undefined) {
      return token;
    }
    renewal ??= (await import("./issuer-login.ts")).createRenewal(connection);
    return renewal();
  };
  return (next) => async (request) => {
    request.header.set("authorization", `Bearer ${await readToken()}`);
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

const failed = new WeakMap<object, DescMethod>();

/** Records which call an error belongs to. */
const noteCall: Interceptor = (next) => async (request) => {
  try {
    return await next(request);
  } catch (error) {
    if (typeof error === "object" && error !== null) {
      failed.set(error, request.method);
    }
    throw error;
  }
};

/** True if the call that failed with this error would have changed something. */
export function isChange(error: object): boolean {
  const method = failed.get(error);
  return method !== undefined && changesServer(method);
}

function changesServer({ idempotency }: DescMethod): boolean {
  return idempotency === MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN;
}

/** Ends a call that changes something at Ctrl-C, with a warning that the server may still carry it out. */
const interrupt: Interceptor = (next) => async (request) => {
  if (!changesServer(request.method)) {
    return next(request);
  }
  const interruption = new AbortController();
  const end = (): void => {
    process.stderr.write(
      "\nflowgate: Interrupted. The server may still complete the call: see flowgate history or flowgate status before you repeat it.\n",
    );
    interruption.abort();
  };
  process.once("SIGINT", end);
  try {
    return await next({ ...request, signal: AbortSignal.any([request.signal, interruption.signal]) });
  } catch (error) {
    throw interruption.signal.aborted ? new CliFailure("", { exitCode: exitCodes.interrupted, cause: error }) : error;
  } finally {
    process.off("SIGINT", end);
  }
};
