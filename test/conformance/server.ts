// The server under test, started by connectconformance: reads a ServerCompatRequest from standard input, responds
// with a ServerCompatResponse and serves until SIGTERM. Argument: which server.
import { buffer } from "node:stream/consumers";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  ServerCompatRequestSchema,
  ServerCompatResponseSchema,
} from "../../gen/connectrpc/conformance/v1/server_compat_pb.ts";
import type { ServerUnderTest } from "./suite.ts";

// The suite starts many of these processes: each loads its own server only.
const servers = {
  flowgate: async () => (await import("./flowgate.ts")).openFlowgate,
  node: async () => (await import("./library.ts")).openNode,
  fastify: async () => (await import("./library.ts")).openFastify,
  stock: async () => (await import("./stock.ts")).openStock,
};
const open = await servers[process.argv[2] as ServerUnderTest]();

// Both messages are prefixed with their size, in four bytes.
const request = fromBinary(ServerCompatRequestSchema, (await buffer(process.stdin)).subarray(4));
const response = toBinary(
  ServerCompatResponseSchema,
  create(ServerCompatResponseSchema, {
    host: "127.0.0.1",
    port: await open(request),
    ...(request.serverCreds && { pemCert: request.serverCreds.cert }),
  }),
);
const size = Buffer.alloc(4);
size.writeUInt32BE(response.length);
process.stdout.write(Buffer.concat([size, response]));
