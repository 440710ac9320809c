import { Code, ConnectError, createClient, type Transport } from "@connectrpc/connect";
import { BadRequestSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { StreamsService } from "../gen/gatewaytest/v1/streams_pb.ts";
import { ThingsService } from "../gen/gatewaytest/v1/things_pb.ts";
import { type RpcOptions } from "./rpc-servers.ts";

export const routes: RpcOptions["routes"] = (router) =>
  router
    .service(ThingsService, {
      openThing: ({ id }) => ({ id: `${id} opened` }),
      sendForm({ userName }, context) {
        switch (userName) {
          case "nobody":
            throw new ConnectError("there is no such user", Code.NotFound, { "x-hint": "try somebody" }, [
              { desc: BadRequestSchema, value: { fieldViolations: [{ field: "user_name", description: "unknown" }] } },
            ]);
          case "bug":
            throw new TypeError("internal information");
          default:
            context.responseHeader.set("x-header", "before");
            context.responseTrailer.set("x-trailer", "after");
            return {
              userName: userName.length > 100 ? userName : `${userName} by ${context.requestHeader.get("x-by")}`,
            };
        }
      },
    })
    .service(StreamsService, {
      async *list({ shelf, count }) {
        for (let number = 1; number <= count; number++) {
          yield { shelf, count: number };
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
      async *chat(items) {
        for await (const { text } of items) {
          yield { text: text.toUpperCase() };
        }
      },
    });

export async function failureOf(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => Promise.reject(new Error("the call has succeeded")),
    (error: unknown) => ConnectError.from(error),
  );
}

export const things = (transport: Transport) => createClient(ThingsService, transport);
export const streams = (transport: Transport) => createClient(StreamsService, transport);
