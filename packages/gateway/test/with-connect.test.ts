import { create, createRegistry, equals, fromJson, toJson, type JsonValue } from "@bufbuild/protobuf";
import { anyPack, DurationSchema, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  Code,
  ConnectError,
  createClient,
  createContextKey,
  createContextValues,
  type ConnectRouter,
  type HandlerContext,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";
import { fastifyConnectPlugin } from "@connectrpc/connect-fastify";
import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";
import { fastify, type FastifyInstance } from "fastify";
import { request as httpRequest } from "node:http";
import { connect } from "node:http2";
import { describe, expect, test } from "vitest";
import { AnysService, ParcelSchema, type Parcel } from "./gen/gatewaytest/v1/anys_pb.ts";
import { ThingsService, type Colour } from "./gen/gatewaytest/v1/things_pb.ts";
import { fastifyGatewayPlugin, type FastifyGatewayPluginOptions } from "../src/adapters/fastify/index.ts";
import { collect, type HttpVersion } from "./serve-streams.ts";

type Served = AsyncDisposable & { readonly app: FastifyInstance; readonly baseUrl: string };

/** A Fastify application with both plugins and the same options. */
async function serveBoth(
  options: FastifyGatewayPluginOptions & { routes: (router: ConnectRouter) => void },
  version: HttpVersion = "HTTP/1.1",
): Promise<Served> {
  const app =
    version === "HTTP/2"
      ? (fastify({ http2: true, forceCloseConnections: true }) as unknown as FastifyInstance)
      : fastify({ forceCloseConnections: true });
  app.get("/own", () => "own");
  const { requestGate, interceptors, contextValues, routes } = options;
  await app.register(fastifyConnectPlugin, {
    routes,
    ...(requestGate && { requestGate }),
    ...(interceptors && { interceptors: [...interceptors] }),
    ...(contextValues && { contextValues }),
  });
  await app.register(fastifyGatewayPlugin, options);
  const baseUrl = await app.listen({ host: "127.0.0.1", port: 0 });
  return { app, baseUrl, [Symbol.asyncDispose]: () => app.close() };
}

test("the same routes and options serve fastifyConnectPlugin and fastifyGatewayPlugin of one Fastify", async () => {
  const calls: string[] = [];
  await using server = await serveBoth({
    routes: (router) => {
      router.rpc(ThingsService.method.sendForm, ({ userName }, { protocolName }) => {
        calls.push(`${protocolName} ${userName}`);
        return { userName: userName.toUpperCase() };
      });
    },
    requestGate: () => void calls.push("gate"),
  });
  const { baseUrl } = server;
  const client = createClient(ThingsService, createConnectTransport({ baseUrl, httpVersion: "1.1" }));
  expect(await client.sendForm({ userName: "rpc" })).toMatchObject({ userName: "RPC" });
  const reply = await fetch(`${baseUrl}/things/form`, {
    method: "POST",
    body: new URLSearchParams({ user_name: "rest" }),
  });
  expect(await reply.json()).toEqual({ userName: "REST" });
  expect(await (await fetch(`${baseUrl}/own`)).text()).toBe("own");
  expect(calls).toEqual(["gate", "connect rpc", "gate", "http rest"]);
});

const parcel = create(ParcelSchema, {
  item: anyPack(DurationSchema, create(DurationSchema, { seconds: 3n })),
  byName: { "a b": anyPack(DurationSchema, create(DurationSchema)) },
  choice: { case: "none", value: "" },
  thing: {
    text: "世\u0000😀",
    flag: true,
    large: -(2n ** 63n),
    unsignedLarge: 2n ** 64n - 1n,
    ratio: -Infinity,
    single: 0.5,
    data: Uint8Array.of(0, 255),
    colour: 7 as Colour,
    maybe: "",
    texts: ["", "b"],
    things: [{ small: -1 }, {}],
    counts: { a: 1 },
    inner: { choice: { case: "right", value: 0 } },
    struct: { a: [null, { b: 1.5 }] },
    at: timestampFromMs(1.5),
    wrapped: "",
  },
  parcels: { "": {} },
});

const registry = createRegistry(DurationSchema);
const json = JSON.stringify(toJson(ParcelSchema, parcel, { registry }));
const readParcel = (value: JsonValue): Parcel => fromJson(ParcelSchema, value, { registry });
const headers = { "x-caller": "ann" };

type Kind = "unary" | "stream";

/** Makes a call, and returns the messages and a header of the response. */
type Send = (kind: Kind, baseUrl: string) => Promise<{ messages: Parcel[]; header: string | null }>;

function rpc(open: (baseUrl: string) => Transport): Send {
  return async (kind, baseUrl) => {
    const client = createClient(AnysService, open(baseUrl));
    let header: string | null = null;
    const options = {
      headers,
      onHeader: (received: Headers) => {
        header = received.get("x-answer");
      },
    };
    const messages =
      kind === "unary"
        ? [await client.echoParcel(parcel, options)]
        : await collect(client.watchParcel(parcel, options));
    return { messages, header };
  };
}

const rest: Send = async (kind, baseUrl) => {
  const reply = await fetch(`${baseUrl}${kind === "unary" ? "/anys" : "/anys/watch"}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json", accept: "application/json" },
    body: json,
  });
  const response = (await reply.json()) as JsonValue;
  const messages = Array.isArray(response) ? response : [response];
  return { messages: messages.map(readParcel), header: reply.headers.get("x-answer") };
};

const protocols: [name: string, version: HttpVersion, send: Send][] = [
  ["REST", "HTTP/1.1", rest],
  ["Connect", "HTTP/1.1", rpc((baseUrl) => createConnectTransport({ baseUrl, httpVersion: "1.1" }))],
  ["gRPC", "HTTP/2", rpc((baseUrl) => createGrpcTransport({ baseUrl }))],
  ["gRPC-Web", "HTTP/1.1", rpc((baseUrl) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }))],
];

type Trace = {
  /** The steps that ran, in order, with their arguments. */
  readonly steps: string[];
  readonly messages: Parcel[];
  readonly isBodyRead: () => boolean;
};

const traceKey = createContextKey<Trace | undefined>(undefined);
const userKey = createContextKey("nobody");

/** A service, interceptors and a gate that record their calls. */
function traced(): { traces: Trace[]; options: Parameters<typeof serveBoth>[0] } {
  const traces: Trace[] = [];
  const intercept =
    (name: string): Interceptor =>
    (next) =>
    async (request) => {
      const { header, contextValues, method, service, stream, requestMethod } = request;
      const trace = contextValues.get(traceKey);
      trace?.steps.push(
        `${name} ${service.typeName} ${method.name} ${stream} ${requestMethod} ${header.get("x-caller")} ${contextValues.get(userKey)}`,
      );
      contextValues.set(userKey, `${contextValues.get(userKey)} ${name}`);
      if (!request.stream) {
        trace?.messages.push(request.message as Parcel);
        return next(request);
      }
      const { message } = request;
      return next({
        ...request,
        message: (async function* () {
          for await (const each of message) {
            trace?.messages.push(each as Parcel);
            yield each;
          }
        })(),
      });
    };
  const note = (
    message: Parcel,
    { values, requestHeader, responseHeader, method, timeoutMs }: HandlerContext,
  ): void => {
    const trace = values.get(traceKey);
    trace?.steps.push(
      `implementation ${method.name} ${requestHeader.get("x-caller")} ${values.get(userKey)} ${timeoutMs()}`,
    );
    trace?.messages.push(message);
    responseHeader.set("x-answer", values.get(userKey));
  };
  return {
    traces,
    options: {
      routes: (router) =>
        router.service(AnysService, {
          echoParcel(request, context) {
            note(request, context);
            return request;
          },
          async *watchParcel(request, context) {
            note(request, context);
            yield request;
            yield { choice: { case: "none", value: "second" } };
          },
        }),
      interceptors: [intercept("outer"), intercept("inner")],
      contextValues: ({ raw, headers: { "x-caller": caller } }) => {
        const trace = { steps: [], messages: [], isBodyRead: () => raw.readableDidRead };
        traces.push(trace);
        return createContextValues().set(traceKey, trace).set(userKey, String(caller));
      },
      async requestGate({ values, requestHeader, method }) {
        const trace = values.get(traceKey);
        trace?.steps.push(
          `gate ${method.name} ${requestHeader.get("x-caller")} ${values.get(userKey)} ${trace.isBodyRead()}`,
        );
        values.set(userKey, `${values.get(userKey)} gate`);
        // Gives a reader of the body time to start.
        await new Promise((resolve) => setImmediate(resolve));
        trace?.steps.push(`gate left ${trace.isBodyRead()}`);
      },
    },
  };
}

describe.each<[Kind, string]>([
  ["unary", "EchoParcel"],
  ["stream", "WatchParcel"],
])("a %s call", (kind, method) => {
  const service = AnysService.typeName;
  const isStream = kind === "stream";

  test.each(protocols)("has the same steps and result over %s", async (_name, version, send) => {
    const { traces, options } = traced();
    await using server = await serveBoth(options, version);
    const { messages, header } = await send(kind, server.baseUrl);
    const [trace, ...others] = traces;
    expect(others).toEqual([]);
    expect(trace?.steps).toEqual([
      `gate ${method} ann ann false`,
      "gate left false",
      `outer ${service} ${method} ${isStream} POST ann ann gate`,
      `inner ${service} ${method} ${isStream} POST ann ann gate outer`,
      `implementation ${method} ann ann gate outer inner undefined`,
    ]);
    expect(trace?.messages.map((message) => equals(ParcelSchema, message, parcel))).toEqual([true, true, true]);
    const second = create(ParcelSchema, { choice: { case: "none", value: "second" } });
    const expected = isStream ? [parcel, second] : [parcel];
    expect(messages.map((message, at) => equals(ParcelSchema, message, expected[at] ?? parcel))).toEqual(
      expected.map(() => true),
    );
    expect(header).toBe("ann gate outer inner");
  });

  const rpcPath = `/${service}/${method}`;
  test.each<[name: string, version: HttpVersion, path: string, contentType: string, rejection: RegExp]>([
    ["REST", "HTTP/1.1", isStream ? "/anys/watch" : "/anys", "application/json", /"code":"permission_denied"/],
    ["REST", "HTTP/2", isStream ? "/anys/watch" : "/anys", "application/json", /"code":"permission_denied"/],
    [
      "Connect",
      "HTTP/1.1",
      rpcPath,
      isStream ? "application/connect+proto" : "application/proto",
      /"code":"permission_denied"/,
    ],
    ["gRPC", "HTTP/2", rpcPath, "application/grpc+proto", /grpc-status: 7/],
    ["gRPC-Web", "HTTP/1.1", rpcPath, "application/grpc-web+proto", /grpc-status: 7/],
  ])(
    "is rejected by the gate without waiting for its body: %s, %s",
    async (_name, version, path, contentType, rejection) => {
      const { traces, options } = traced();
      await using server = await serveBoth(
        {
          ...options,
          async requestGate(context) {
            await options.requestGate?.(context);
            throw new ConnectError("no entry", Code.PermissionDenied);
          },
        },
        version,
      );
      const begun = { ...headers, "content-type": contentType, "content-length": "1000" };
      expect(await (version === "HTTP/2" ? beginHttp2 : beginHttp1)(server.baseUrl, path, begun)).toMatch(rejection);
      expect(traces.map(({ steps }) => steps)).toEqual([[`gate ${method} ann ann false`, "gate left false"]]);
    },
  );
});

/** Sends the header of a request without its body, and returns the raw response. */
function beginHttp1(baseUrl: string, path: string, head: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(`${baseUrl}${path}`, { method: "POST", headers: head, agent: false }, (response) => {
      // The request is aborted before it is complete.
      request.on("error", () => {});
      let text = formatHeaders(response.headers);
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on("end", () => {
        resolve(text + formatHeaders(response.trailers));
        request.destroy();
      });
    });
    request.once("error", reject);
    request.flushHeaders();
  });
}

/** Like the above, over HTTP/2. */
function beginHttp2(baseUrl: string, path: string, head: Record<string, string>): Promise<string> {
  return new Promise((resolve, reject) => {
    const session = connect(baseUrl);
    session.once("error", reject);
    const stream = session.request({ ":method": "POST", ":path": path, te: "trailers", ...head }, { endStream: false });
    let text = "";
    const addHeaders = (received: object): void => {
      text += formatHeaders(received);
    };
    stream.on("error", reject).on("response", addHeaders).on("trailers", addHeaders);
    stream.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
    stream.on("end", () => {
      resolve(text);
      session.destroy();
    });
  });
}

function formatHeaders(received: object): string {
  return Object.entries(received)
    .map(([name, value]) => `${name}: ${String(value)}\n`)
    .join("");
}
