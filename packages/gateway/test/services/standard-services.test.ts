import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { createFetchHandler } from "../../src/adapters/fetch/index.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { buildServices } from "../build-message.ts";
import { fetchTransports, openHttp2 } from "../adapters/rpc-servers.ts";
import { failureOf, routes } from "../adapters/rpc-routes.ts";
import { collect } from "../serve-streams.ts";

describe("standard services", () => {
  test("health serves all services until the shutdown", async () => {
    const closing = new AbortController();
    await using server = await openHttp2({ routes, health: true, shutdownSignal: closing.signal });
    for (const [, transport] of server.transports) {
      const health = createClient(Health, transport);
      expect(await health.check({ service: ThingsService.typeName })).toMatchObject({ status: Status.SERVING });
      expect(Object.keys((await health.list({})).statuses)).toEqual([
        "",
        ThingsService.typeName,
        StreamsService.typeName,
        Health.typeName,
      ]);
      expect((await failureOf(health.check({ service: "example.v1.Nothing" }))).code).toBe(Code.NotFound);
    }
    const [, [, transport] = []] = server.transports;
    if (transport === undefined) {
      throw new Error("there is no transport");
    }
    const health = createClient(Health, transport);
    const watch = health.watch({})[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ status: Status.SERVING });
    closing.abort();
    expect(await health.check({})).toMatchObject({ status: Status.NOT_SERVING });
    expect((await watch.next()).value).toMatchObject({ status: Status.NOT_SERVING });
    expect((await failureOf(watch.next())).code).toBe(Code.Unavailable);
  });

  test("health reports what the application says, and limits watches", async () => {
    let isUp = false;
    let watches = 0;
    let changed = (): void => {};
    await using server = await openHttp2({
      routes,
      health: {
        serves: (service) => isUp || service === Health.typeName,
        onChange: (listener) => void (changed = listener),
        admitWatch() {
          if (watches > 0) {
            throw new ConnectError("one watch is enough", Code.ResourceExhausted);
          }
          watches++;
          return () => void watches--;
        },
      },
    });
    const [, [, transport] = []] = server.transports;
    const health = createClient(Health, transport as Transport);
    const abort = new AbortController();
    expect(await health.check({ service: ThingsService.typeName })).toMatchObject({ status: Status.NOT_SERVING });
    expect(await health.check({ service: Health.typeName })).toMatchObject({ status: Status.SERVING });
    const watch = health.watch({}, { signal: abort.signal })[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ status: Status.NOT_SERVING });
    expect((await failureOf(collect(health.watch({})))).code).toBe(Code.ResourceExhausted);
    isUp = true;
    changed();
    expect((await watch.next()).value).toMatchObject({ status: Status.SERVING });
    abort.abort();
    expect((await failureOf(watch.next())).code).toBe(Code.Canceled);
  });

  test.each([
    [98, 100],
    [99, Code.ResourceExhausted],
  ])("health lists %i services, itself and the whole: %i", async (count, expected) => {
    const services = buildServices(count);
    const handle = createFetchHandler({
      routes: (router) => services.forEach((service) => router.service(service, {})),
      health: true,
    });
    const [[, transport] = []] = fetchTransports(async (input, init) => handle(new Request(input, init)));
    const outcome = await createClient(Health, transport as Transport)
      .list({})
      .then(
        ({ statuses }) => Object.keys(statuses).length,
        (error: unknown) => ConnectError.from(error).code,
      );
    expect(outcome).toBe(expected);
  });

  test("reflection describes the registered services and itself", async () => {
    await using server = await openHttp2({ routes, reflection: true, health: true });
    for (const [, transport] of server.transports) {
      const client = createClient(ServerReflection, transport);
      async function* requests() {
        yield { messageRequest: { case: "listServices", value: "" } } as const;
        yield { messageRequest: { case: "fileContainingSymbol", value: "gatewaytest.v1.Item" } } as const;
      }
      const [services, file] = await collect(client.serverReflectionInfo(requests()));
      expect(services?.messageResponse).toMatchObject({
        case: "listServicesResponse",
        value: {
          service: [
            { name: StreamsService.typeName },
            { name: ThingsService.typeName },
            { name: Health.typeName },
            { name: ServerReflection.typeName },
            { name: "grpc.reflection.v1alpha.ServerReflection" },
          ],
        },
      });
      expect(file?.messageResponse.case).toBe("fileDescriptorResponse");
    }
  });

  test("are off by default", async () => {
    await using server = await openHttp2({ routes });
    const [, [, transport] = []] = server.transports;
    expect((await failureOf(createClient(Health, transport as Transport).check({}))).code).toBe(Code.Unimplemented);
  });
});
