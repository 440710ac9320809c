import type { ConnectRouter } from "@connectrpc/connect";
import { AuthService } from "../../gen/flowgate/v1/auth_pb.ts";
import { StreamsService } from "../../packages/gateway/test/gen/gatewaytest/v1/streams_pb.ts";
import { login } from "./login.ts";

/** What the peers of RPC benchmarks serve: a unary call, and a stream of as many messages as requested. */
export function routes(router: ConnectRouter): ConnectRouter {
  return router.service(AuthService, { getLogin: () => login }).service(StreamsService, {
    async *list({ shelf, count }) {
      for (let number = 0; number < count; number++) {
        yield { shelf, text: "one of many", count: number };
      }
    },
  });
}
