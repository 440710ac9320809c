import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import type { GatewayOptions } from "../../src/index.ts";
import { RawService, StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";

function routes(router: ConnectRouter): void {
  router.service(ThingsService, {
    echoThing: ({ thing }) => ({ thing }),
    openThing: ({ id, note, tags, others }, { url }) => ({
      id: `${id} at ${new URL(url).pathname}`,
      ...(note === undefined ? {} : { note }),
      tags,
      ...(others === undefined ? {} : { others }),
    }),
    sendForm({ userName, age, admin, speed }, { responseHeader }) {
      if (userName === "nobody") {
        throw new ConnectError("there is no such user", Code.NotFound, { "retry-after": "3" });
      }
      if (userName === "bug") {
        throw new TypeError("internal information");
      }
      responseHeader.append("set-cookie", "a=1");
      responseHeader.append("set-cookie", "b=2");
      return { userName, age, admin, speed };
    },
    getHeaders: ({ speed, count }) => ({ speed, count }),
  });
  router.service(StreamsService, {
    async *list({ shelf, count }) {
      if (shelf === "none") {
        throw new ConnectError("there is no such shelf", Code.NotFound);
      }
      for (let number = 0; number < count; number++) {
        yield { shelf, count: number, text: "one of many" };
      }
      if (shelf === "broken") {
        throw new ConnectError("the shelf broke", Code.DataLoss);
      }
    },
    async sum(items) {
      let count = 0;
      for await (const item of items) {
        count += item.count;
      }
      return { count };
    },
    async *download() {
      yield { contentType: "text/csv", data: new TextEncoder().encode("a,b\n") };
      yield { contentType: "text/csv", data: new TextEncoder().encode("1,2\n") };
    },
    async upload(chunks) {
      let bytes = 0n;
      for await (const { data } of chunks) {
        bytes += BigInt(data.length);
      }
      return { bytes };
    },
  });
  router.service(RawService, { echo: (body) => body, attach: (attachment) => attachment });
}

/** The options of all servers that the table of requests is sent to. */
export const options = {
  routes,
  rules: [
    {
      selector: "gatewaytest.v1.ThingsService.GetHeaders",
      pattern: { case: "get", value: "/things/headers" },
      options: { etag: "count" },
    },
    {
      selector: "gatewaytest.v1.ThingsService.SendForm",
      pattern: { case: "post", value: "/things/form" },
      body: "*",
      additionalBindings: [{ pattern: { case: "get", value: "/users/{user_name}" } }],
      options: { consumes: ["application/x-www-form-urlencoded", "application/json"] },
    },
  ],
  readMaxBytes: 100_000,
  cors: { origins: ["https://app.example"] },
  onError() {},
} as const satisfies GatewayOptions;
