import { type ConnectRouter, createContextValues, type Interceptor } from "@connectrpc/connect";
import { fastify, type FastifyInstance, type FastifyRequest } from "fastify";
import type { Logger } from "pino";
import { peerKey } from "../auth/principal.ts";
import { registerRpcs } from "./connect.ts";
import { registerDocs } from "./docs.ts";
import { createFaultHandler, refuseUnknown } from "./faults.ts";
import { type Readiness, registerHealth } from "./health.ts";
import { failureInterceptor, type Gate, gateWithFailures } from "./interceptors.ts";
import { createListener, type ListenerOptions } from "./listener.ts";
import { FastifyLog, logRequests } from "./request-log.ts";
import { fastifyTranscodingPlugin } from "../transcoding/index.ts";
import { answerRequestIds, createRequestIds } from "./request-id.ts";

export type ServerOptions = {
  host: string;
  /** 0 takes any free port. */
  port: number;
  log: Logger;
  /** Registers the RPCs; called once by each protocol stack. */
  routes: (router: ConnectRouter) => void;
  /** Lets a call in or throws; runs before its body is read. */
  gate: Gate;
  /** Outermost first. */
  interceptors: Interceptor[];
  ready: () => Readiness;
  /** The API is described at /openapi.json and /docs. Absent: it is not. */
  docs?: boolean;
  limits: {
    /** Of the largest request message. */
    bodyBytes: number;
  };
  listener?: Partial<ListenerOptions>;
};

/** Disposing finishes the calls in flight, within the listener's grace. */
export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
}

/** Serves the RPCs over every protocol, and the health of the service, on one port. */
export async function openServer(options: ServerOptions): Promise<Server> {
  const app = createApp(options);
  try {
    const url = await app.listen({ host: options.host, port: options.port });
    return { url, port: Number(new URL(url).port), [Symbol.asyncDispose]: () => app.close() };
  } catch (error) {
    await app.close();
    throw error;
  }
}

function createApp({ log, limits, ...options }: ServerOptions): FastifyInstance {
  const faultHandler = createFaultHandler(log);
  const app = fastify({
    serverFactory: (handler) => createListener(handler, options.listener),
    genReqId: createRequestIds(),
    logController: new FastifyLog(log),
    frameworkErrors: faultHandler,
    // The listener answers these, and it decides what a closing server still serves.
    clientErrorHandler: () => {},
    // A target in absolute form is taken too (RFC 9112, section 3.2.2).
    rewriteUrl: ({ url = "" }) => (url.startsWith("/") ? url : url.replace(/^https?:\/\/[^/?#]*/i, "") || "/"),
    return503OnClosing: false,
    // The router counts a wildcard as a parameter, and would refuse paths beyond 100 characters.
    routerOptions: { maxParamLength: 16 * 1024 },
  });

  // Bodies are read by whom they are for, after the gate.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(/^/, (_request, _payload, done) => done(null));

  app.setErrorHandler(faultHandler);
  refuseUnknown(app);
  answerRequestIds(app);
  logRequests(app, log);
  registerHealth(app, options.ready);
  if (options.docs === true) {
    registerDocs(app);
  }

  const calls = {
    routes: options.routes,
    requestGate: gateWithFailures(options.gate, log),
    interceptors: [failureInterceptor(log), ...options.interceptors],
    contextValues,
  };
  registerRpcs(app, { ...calls, readMaxBytes: limits.bodyBytes }, log);
  void app.register(fastifyTranscodingPlugin, { ...calls, maxBodyBytes: limits.bodyBytes });
  return app;
}

function contextValues(request: FastifyRequest) {
  return createContextValues().set(peerKey, { address: request.ip ?? "", requestId: request.id });
}
