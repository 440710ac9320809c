import { setImmediate } from "node:timers/promises";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { context, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { openServer } from "../../src/server/open-server.ts";
import type { RequestRoute } from "../../src/server/pipeline/request-context.ts";
import { openTracing } from "../../src/telemetry/trace.ts";
import { serveRoutes } from "../server/serve-routes.ts";

afterEach(() => {
  trace.disable();
  context.disable();
});

const log = pino({ level: "silent" });

/** A server whose implementation starts its own span, like an instrumentation. */
async function open() {
  const tracing = await openTracing(undefined, { version: "1", log });
  const server = await openServer({
    host: "127.0.0.1",
    port: 0,
    log,
    routes: (router) =>
      router.service(AuthService, {
        async getLogin() {
          await setImmediate();
          trace.getTracer("an instrumentation").startSpan("a query").end();
          return {};
        },
      }),
    gate: () => {},
    interceptors: [],
    ready: () => ({ ready: true }),
    limits: { bodyBytes: 1000 },
    tracing,
  });
  return server;
}

test("spans go to the embedder's registered provider, and are parents of those of its instrumentations", async () => {
  const exporter = new InMemorySpanExporter();
  trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  await using server = await open();
  await createClient(AuthService, createGrpcTransport({ baseUrl: server.url })).getLogin({});
  const connect = createConnectTransport({ baseUrl: server.url, httpVersion: "1.1" });
  await createClient(AuthService, connect).getLogin({});
  await fetch(`${server.url}/auth/login`);
  // Disposing waits until the responses are closed.
  await server[Symbol.asyncDispose]();

  const spans = exporter.getFinishedSpans();
  const calls = spans.filter(({ name }) => name === "flowgate.v1.AuthService/GetLogin");
  expect(calls.length).toBe(3);
  for (const call of calls) {
    const { spanId } = call.spanContext();
    expect(spans.filter(({ parentSpanContext }) => parentSpanContext?.spanId === spanId)).toMatchObject([
      { name: "a query" },
    ]);
  }
});

test("the span of a request is a child of that of the embedder's instrumentation", async () => {
  const provider = new TracerProvider();
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const outer = provider.getTracer("an HTTP instrumentation").startSpan("GET");
  const { root } = await openTracing(undefined, { version: "1", log });
  const places: string[] = [];
  const route: RequestRoute = {
    kind: "endpoint",
    method: undefined,
    isExempt: false,
    serve(request) {
      places.push(request.traceIds.span_id ?? "");
      return { status: 204, headers: {}, body: undefined };
    },
  };
  await using server = await serveRoutes(() => route, {
    traceRoot: root,
    around: (handle) => (exchange, rejection) =>
      context.with(trace.setSpan(context.active(), outer), handle, undefined, exchange, rejection),
  });
  await fetch(server.url);
  expect(places).toEqual([outer.spanContext().spanId]);
});

test("there are no spans without a registered provider", async () => {
  const tracing = await openTracing(undefined, { version: "1", log });
  expect(tracing.isOn).toBe(false);
  await using server = await open();
  expect((await fetch(`${server.url}/auth/login`)).status).toBe(200);
});
