import { Code, ConnectError, type ContextValues, createContextValues, type Interceptor } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { kHttpRoute, kHttpStatus, type GatewayOptions } from "../../../../src/index.ts";
import { StreamsService } from "../../../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../../../gen/gatewaytest/v1/things_pb.ts";
import { json, serve } from "../../../serve.ts";

/** A unary RPC, a server stream, a raw stream and a client stream, each of which sets the status. */
function choosing(status: number, headers: Record<string, string> = {}): GatewayOptions["routes"] {
  const choose = ({ values, responseHeader }: { values: ContextValues; responseHeader: Headers }): void => {
    values.set(kHttpStatus, status);
    for (const [name, value] of Object.entries(headers)) {
      responseHeader.set(name, value);
    }
  };
  return (router) =>
    router
      .service(ThingsService, {
        echoThing({ thing }, context) {
          choose(context);
          return { ...(thing && { thing }) };
        },
      })
      .service(StreamsService, {
        async *list(_, context) {
          choose(context);
          yield { text: "a" };
        },
        async *download(_, context) {
          choose(context);
          yield { contentType: "text/plain", data: new Uint8Array([97]) };
        },
        async sum(_, context) {
          choose(context);
          return {};
        },
      });
}

const echo = { headers: json, body: '{"text":"a"}' };
const echoPath = "/things/echo";
const rpcPath = `/${ThingsService.typeName}/${ThingsService.method.echoThing.name}`;
const rpc = { headers: json, body: '{"thing":{"text":"a"}}' };

describe("kHttpStatus", () => {
  test("is the status of a successful response, with the headers that the implementation sets", async () => {
    await using server = await serve({ routes: choosing(201, { location: "/things/1" }) });
    const { status, headers, body } = await server.send("POST", echoPath, echo);
    expect([status, headers["location"], JSON.parse(body)]).toEqual([201, "/things/1", { text: "a" }]);
  });

  test.each([204, 205, 304])("%d has no body", async (code) => {
    await using server = await serve({ routes: choosing(code) });
    const { status, headers, body } = await server.send("POST", echoPath, echo);
    expect([status, headers["content-type"], body]).toEqual([code, undefined, ""]);
  });

  test("redirects", async () => {
    await using server = await serve({ routes: choosing(303, { location: "/elsewhere" }) });
    const { status, headers } = await server.send("POST", echoPath, echo);
    expect([status, headers["location"]]).toEqual([303, "/elsewhere"]);
  });

  test.each([0, 100, 199, 400, 404, 201.5, Number.NaN])("%d is an error of the implementation", async (code) => {
    const errors: unknown[] = [];
    await using server = await serve({
      routes: choosing(code),
      mapError(error) {
        errors.push(error);
        return new ConnectError("internal error", Code.Internal);
      },
    });
    expect((await server.send("POST", echoPath, echo)).status).toBe(500);
    expect(errors).toEqual([
      new RangeError(
        `kHttpStatus must be an integer from 200 to 399, not ${code}; throw a ConnectError to fail the call`,
      ),
    ]);
  });

  test("is that of the implementation also if an interceptor has replaced the context values", async () => {
    const replacing: Interceptor = (next) => (request) => next({ ...request, contextValues: createContextValues() });
    const observing: Interceptor = (next) => (request) => {
      request.contextValues.set(kHttpStatus, 202);
      return next(request);
    };
    const routes = choosing(201);
    // The last one is applied first.
    await using server = await serve({ routes, interceptors: [replacing, observing] });
    expect((await server.send("POST", echoPath, echo)).status).toBe(201);
  });

  test("applies to streams", async () => {
    await using server = await serve({ routes: choosing(202) });
    const list = await server.send("GET", "/streams/s/items");
    expect([list.status, list.body]).toEqual([202, '{"text":"a"}\n']);
    const download = await server.send("GET", "/streams/download/n");
    expect([download.status, download.body]).toEqual([202, "a"]);
    const ndjson = { "content-type": "application/x-ndjson" };
    const sum = await server.send("POST", "/streams/sum", { headers: ndjson, body: "{}\n" });
    expect(sum.status).toBe(202);
  });

  test("can't be one without a body for a stream of responses", async () => {
    await using server = await serve({ routes: choosing(204) });
    expect((await server.send("GET", "/streams/s/items")).status).toBe(500);
    expect((await server.send("GET", "/streams/download/n")).status).toBe(500);
  });

  test("has no effect over RPC", async () => {
    await using server = await serve({ routes: choosing(201) });
    expect((await server.send("POST", rpcPath, rpc)).status).toBe(200);
  });
});

describe("kHttpRoute", () => {
  test("is the template of the path, for interceptors, the gate and the implementation", async () => {
    const seen: unknown[] = [];
    const interceptor: Interceptor = (next) => (request) => {
      seen.push(["interceptor", request.contextValues.get(kHttpRoute)]);
      return next(request);
    };
    await using server = await serve({
      interceptors: [interceptor],
      requestGate: ({ values }) => {
        seen.push(["gate", values.get(kHttpRoute)]);
      },
      routes: (router) =>
        router.service(StreamsService, {
          async *list({ shelf }, { values }) {
            seen.push([shelf, values.get(kHttpRoute)]);
            yield { text: shelf };
          },
        }),
    });
    await server.send("GET", "/streams/a%2Fb/items");
    const template = "/streams/{shelf}/items";
    expect(seen).toEqual([
      ["gate", template],
      ["interceptor", template],
      ["a/b", template],
    ]);
  });

  test("is undefined over RPC", async () => {
    const seen: unknown[] = [];
    await using server = await serve({
      routes: (router) =>
        router.service(ThingsService, {
          echoThing(_, { values }) {
            seen.push(values.get(kHttpRoute));
            return {};
          },
        }),
    });
    await server.send("POST", rpcPath, rpc);
    expect(seen).toEqual([undefined]);
  });
});
