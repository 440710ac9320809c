import { create, createFileRegistry, type DescMessage, type DescService } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorProtoSchema,
  file_google_protobuf_empty,
} from "@bufbuild/protobuf/wkt";

/** Builds a message without a .proto file. Fields are strings, or of a message type. */
export function buildMessage(fields: Readonly<Record<string, DescMessage | "string">>): DescMessage {
  const files = Object.values(fields).flatMap((type) => (type === "string" ? [] : [type.file]));
  const field = Object.entries(fields).map(([name, type], index) => ({
    name,
    jsonName: name.replaceAll(/_(\w)/g, (_match, letter: string) => letter.toUpperCase()),
    number: index + 1,
    label: FieldDescriptorProto_Label.OPTIONAL,
    ...(type === "string"
      ? { type: FieldDescriptorProto_Type.STRING }
      : { type: FieldDescriptorProto_Type.MESSAGE, typeName: `.${type.typeName}` }),
  }));
  const file = create(FileDescriptorProtoSchema, {
    name: "built.proto",
    package: "built.v1",
    syntax: "proto3",
    dependency: files.map(({ proto }) => proto.name),
    messageType: [{ name: "Built", field }],
  });
  const registry = createFileRegistry(file, (name) => files.find(({ proto }) => proto.name === name));
  const message = registry.getMessage("built.v1.Built");
  if (message === undefined) {
    throw new Error("the message was not built");
  }
  return message;
}

/** Builds services of one RPC each. */
export function buildServices(count: number): DescService[] {
  const names = Array.from({ length: count }, (_, at) => `Service${at}`);
  const empty = ".google.protobuf.Empty";
  const file = create(FileDescriptorProtoSchema, {
    name: "services.proto",
    package: "built.v1",
    syntax: "proto3",
    dependency: [file_google_protobuf_empty.proto.name],
    service: names.map((name) => ({ name, method: [{ name: "Call", inputType: empty, outputType: empty }] })),
  });
  const registry = createFileRegistry(file, () => file_google_protobuf_empty);
  return names.flatMap((name) => registry.getService(`built.v1.${name}`) ?? []);
}
