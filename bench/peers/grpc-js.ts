// @grpc/grpc-js with the same Protobuf code as the service. The first SIGTERM sends a message to all watches of its health, as
// draining does in the service; the second one exits.
import {
  create,
  type DescMessage,
  type DescMethod,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import {
  type handleUnaryCall,
  type handleServerStreamingCall,
  type MethodDefinition,
  Server,
  ServerCredentials,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import { AuthService, GetLoginResponseSchema } from "../../gen/flowgate/v1/auth_pb.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
  type HealthCheckResponseSchema,
} from "@flowgate/gateway/gen/grpc/health/v1/health_pb.js";
import { login } from "./login.ts";

type Watch = ServerWritableStream<unknown, MessageInitShape<typeof HealthCheckResponseSchema>>;

const watches = new Set<Watch>();
const getLogin: handleUnaryCall<unknown, MessageShape<typeof GetLoginResponseSchema>> = (_call, respond) =>
  respond(null, create(GetLoginResponseSchema, login));
const watch: handleServerStreamingCall<unknown, MessageInitShape<typeof HealthCheckResponseSchema>> = (call) => {
  watches.add(call);
  call.once("cancelled", () => watches.delete(call));
  call.write({ status: Status.SERVING });
};

const server = new Server();
server.addService({ getLogin: definitionOf(AuthService.method.getLogin) }, { getLogin });
server.addService({ watch: definitionOf(Health.method.watch) }, { watch });
server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) {
    throw error;
  }
  process.stdout.write(`listens on http://127.0.0.1:${port}\n`);
});

process.once("SIGTERM", () => {
  watches.forEach((call) => call.write({ status: Status.NOT_SERVING }));
  process.once("SIGTERM", () => process.exit());
});

function definitionOf({ parent, name, methodKind, input, output }: DescMethod): MethodDefinition<unknown, unknown> {
  const serialize = (schema: DescMessage) => (message: unknown) =>
    Buffer.from(toBinary(schema, create(schema, message as MessageInitShape<DescMessage>)));
  const deserialize = (schema: DescMessage) => (bytes: Uint8Array) => fromBinary(schema, bytes);
  return {
    path: `/${parent.typeName}/${name}`,
    requestStream: false,
    responseStream: methodKind === "server_streaming",
    requestSerialize: serialize(input),
    requestDeserialize: deserialize(input),
    responseSerialize: serialize(output),
    responseDeserialize: deserialize(output),
  };
}
