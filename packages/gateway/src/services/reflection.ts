import { type DescFile, type DescService, toBinary } from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
  FileDescriptorProtoSchema,
} from "@bufbuild/protobuf/wkt";
import { Code, type ConnectRouter, type ConnectRouterOptions } from "@connectrpc/connect";
import {
  ServerReflection as ReflectionV1,
  type ServerReflectionRequest as RequestV1,
} from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import {
  ServerReflection as ReflectionV1Alpha,
  type ServerReflectionRequest as RequestV1Alpha,
} from "../../gen/grpc/reflection/v1alpha/reflection_pb.ts";
import { ErrorInfoSchema } from "../../gen/google/rpc/error_details_pb.ts";
import { withDependencies } from "../schema/registry.ts";

/** Both versions of the service; clients use either. */
export const reflectionServices = [ReflectionV1, ReflectionV1Alpha] as const;

/**
 * gRPC's server reflection: https://github.com/grpc/grpc/blob/master/doc/server-reflection.md. Describes
 * these services, the files that declare them, and all files that those import.
 */
export function registerReflection(
  router: ConnectRouter,
  services: readonly DescService[],
  options: Partial<ConnectRouterOptions> = {},
): void {
  // Created by the first call: many services never get one.
  let index: Index | undefined;
  const serverReflectionInfo = <R extends Request>(requests: AsyncIterable<R>) =>
    respondToAll((index ??= createIndex(services)), requests);
  router
    .service(ReflectionV1, { serverReflectionInfo }, options)
    .service(ReflectionV1Alpha, { serverReflectionInfo }, options);
}

type Request = RequestV1 | RequestV1Alpha;

/** The files, by the symbols that they declare. */
type Index = {
  readonly serviceNames: readonly string[];
  readonly files: ReadonlyMap<string, DescFile>;
  readonly encoded: ReadonlyMap<DescFile, Uint8Array>;
  readonly symbols: ReadonlyMap<string, DescFile>;
  readonly extensions: ReadonlyMap<string, ReadonlyMap<number, DescFile>>;
};

function createIndex(services: readonly DescService[]): Index {
  const files = new Map<string, DescFile>();
  // No file of the services imports the types of error details.
  for (const file of withDependencies([...services.map(({ file }) => file), ErrorInfoSchema.file])) {
    files.set(file.proto.name, file);
  }
  const symbols = new Map<string, DescFile>();
  const extensions = new Map<string, Map<number, DescFile>>();
  for (const file of files.values()) {
    for (const { name, extension } of declarationsOf(file)) {
      symbols.set(name, file);
      if (extension !== undefined) {
        // The extendee is written with a leading dot.
        const extended = extension.extendee.slice(1);
        extensions.set(extended, (extensions.get(extended) ?? new Map<number, DescFile>()).set(extension.number, file));
      }
    }
  }
  return {
    serviceNames: services.map(({ typeName }) => typeName).toSorted(),
    files,
    encoded: new Map([...files.values()].map((file) => [file, toBinary(FileDescriptorProtoSchema, file.proto)])),
    symbols,
    extensions,
  };
}

type Declaration = { readonly name: string; readonly extension?: FieldDescriptorProto };

function* declarationsOf({ proto }: DescFile): Generator<Declaration> {
  yield* declarationsIn(proto.package, proto.messageType, proto.enumType, proto.extension);
  for (const { name, method } of proto.service) {
    const service = join(proto.package, name);
    yield { name: service };
    yield* method.map(({ name }) => ({ name: join(service, name) }));
  }
}

function* declarationsIn(
  scope: string,
  messages: readonly DescriptorProto[],
  enums: readonly EnumDescriptorProto[],
  extensions: readonly FieldDescriptorProto[],
): Generator<Declaration> {
  for (const { name, field, oneofDecl, nestedType, enumType, extension } of messages) {
    const message = join(scope, name);
    yield { name: message };
    yield* [...field, ...oneofDecl].map(({ name }) => ({ name: join(message, name) }));
    yield* declarationsIn(message, nestedType, enumType, extension);
  }
  for (const { name, value } of enums) {
    yield { name: join(scope, name) };
    // Enum values are siblings of their enum, as in C++.
    yield* value.map(({ name }) => ({ name: join(scope, name) }));
  }
  yield* extensions.map((extension) => ({ name: join(scope, extension.name), extension }));
}

function join(scope: string, name: string): string {
  return scope === "" ? name : `${scope}.${name}`;
}

async function* respondToAll<R extends Request>(index: Index, requests: AsyncIterable<R>) {
  const sent = new Set<DescFile>();
  for await (const request of requests) {
    yield { validHost: request.host, originalRequest: request, messageResponse: respond(index, request, sent) };
  }
}

/** `sent` contains the files already sent on this stream; this response's files are added to it. */
function respond(index: Index, request: Request, sent: Set<DescFile>) {
  const { serviceNames, files, symbols, extensions } = index;
  const { messageRequest } = request;
  switch (messageRequest.case) {
    case "listServices":
      return { case: "listServicesResponse" as const, value: { service: serviceNames.map((name) => ({ name })) } };
    case "fileByFilename":
      return fileResponse(index, files.get(messageRequest.value), sent, "there is no such file");
    case "fileContainingSymbol":
      return fileResponse(index, symbols.get(messageRequest.value), sent, "no file declares this name");
    case "fileContainingExtension": {
      const { containingType, extensionNumber } = messageRequest.value;
      return fileResponse(
        index,
        extensions.get(containingType)?.get(extensionNumber),
        sent,
        "there is no such extension",
      );
    }
    case "allExtensionNumbersOfType": {
      const numbers = [...(extensions.get(messageRequest.value)?.keys() ?? [])].toSorted((a, b) => a - b);
      if (numbers.length === 0 && !symbols.has(messageRequest.value)) {
        return errorResponse(Code.NotFound, "no file declares this name");
      }
      return {
        case: "allExtensionNumbersResponse" as const,
        value: { baseTypeName: messageRequest.value, extensionNumber: numbers },
      };
    }
    case undefined:
      return errorResponse(Code.Unimplemented, "the request is of an unknown kind");
  }
}

function fileResponse({ encoded }: Index, file: DescFile | undefined, sent: Set<DescFile>, notFound: string) {
  if (file === undefined) {
    return errorResponse(Code.NotFound, notFound);
  }
  // The requested file itself is always sent, as by other servers: the client may not have kept it.
  const unsent = [...withDependencies([file])].filter((needed) => needed === file || !sent.has(needed));
  for (const each of unsent) {
    sent.add(each);
  }
  return {
    case: "fileDescriptorResponse" as const,
    value: { fileDescriptorProto: unsent.flatMap((each) => encoded.get(each) ?? []) },
  };
}

function errorResponse(errorCode: Code, errorMessage: string) {
  return { case: "errorResponse" as const, value: { errorCode, errorMessage } };
}
