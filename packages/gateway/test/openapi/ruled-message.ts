import { create, createFileRegistry, setExtension, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FieldOptionsSchema,
  FileDescriptorProtoSchema,
  file_google_protobuf_timestamp,
  MessageOptionsSchema,
} from "@bufbuild/protobuf/wkt";
import {
  field as fieldExtension,
  FieldRulesSchema,
  file_buf_validate_validate,
  message as messageExtension,
  MessageRulesSchema,
} from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";

export type Rules = MessageInitShape<typeof FieldRulesSchema>;
export type Kind = keyof typeof FieldDescriptorProto_Type;

/** A message with the field `value`, which has these rules. */
export function messageOf(kind: Kind, rules: Rules, label: "one" | "many" | "optional" = "one"): DescMessage {
  const options = create(FieldOptionsSchema);
  setExtension(options, fieldExtension, create(FieldRulesSchema, rules));
  const messageOptions = create(MessageOptionsSchema);
  setExtension(
    messageOptions,
    messageExtension,
    create(MessageRulesSchema, { cel: [{ id: "a", message: "The message is good.", expression: "true" }] }),
  );
  const typeName = new Map<Kind, string>([
    ["MESSAGE", ".google.protobuf.Timestamp"],
    ["ENUM", ".v.Kind"],
  ]).get(kind);
  const file = create(FileDescriptorProtoSchema, {
    name: "v.proto",
    package: "v",
    syntax: "proto3",
    dependency: ["buf/validate/validate.proto", "google/protobuf/timestamp.proto"],
    enumType: [{ name: "Kind", value: ["NONE", "A", "B"].map((name, number) => ({ name, number })) }],
    messageType: [
      {
        name: "Value",
        options: messageOptions,
        field: [
          {
            name: "value",
            jsonName: "value",
            number: 1,
            type: FieldDescriptorProto_Type[kind],
            label: FieldDescriptorProto_Label[label === "many" ? "REPEATED" : "OPTIONAL"],
            ...(typeName === undefined ? {} : { typeName }),
            ...(label === "optional" ? { proto3Optional: true, oneofIndex: 0 } : {}),
            options,
          },
        ],
        ...(label === "optional" ? { oneofDecl: [{ name: "_value" }] } : {}),
      },
    ],
  });
  return buildMessage(file, "v.Value");
}

/** Builds a file, and returns the message with this name. */
export function buildMessage(file: MessageInitShape<typeof FileDescriptorProtoSchema>, name: string): DescMessage {
  const imports = [file_buf_validate_validate, file_google_protobuf_timestamp];
  const registry = createFileRegistry(create(FileDescriptorProtoSchema, file), (path) =>
    imports.find((each) => each.proto.name === path),
  );
  const message = registry.getMessage(name);
  if (message === undefined) {
    throw new Error(`${name} was not built`);
  }
  return message;
}
