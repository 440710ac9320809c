import { create, createFileRegistry } from "@bufbuild/protobuf";
import {
  EmptySchema,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
  file_google_protobuf_empty,
} from "@bufbuild/protobuf/wkt";

const file = create(FileDescriptorProtoSchema, {
  name: "example.proto",
  package: "example",
  syntax: "proto3",
  dependency: ["google/protobuf/empty.proto"],
  service: [
    {
      name: "HealthService",
      method: [{ name: "Check", inputType: `.${EmptySchema.typeName}`, outputType: `.${EmptySchema.typeName}` }],
    },
  ],
});

const service = createFileRegistry(
  create(FileDescriptorSetSchema, { file: [file_google_protobuf_empty.proto, file] }),
).getService("example.HealthService");
if (service === undefined) {
  throw new Error("example.HealthService is missing");
}

/** A service whose method has no (flowgate.v1.access) option. */
export const HealthService = service;
