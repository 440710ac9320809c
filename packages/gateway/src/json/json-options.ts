import type { DescField } from "@bufbuild/protobuf";
import { FeatureSet_FieldPresence, ValueSchema } from "@bufbuild/protobuf/wkt";

export type JsonOptions = {
  /**
   * Ignores keys of requests and forms that the message does not declare, instead of rejecting them. Default: false.
   */
  ignoreUnknownFields?: boolean;
  /** Accepts names of enum values in any case, in bodies, paths, queries, headers and forms. Default: false. */
  ignoreEnumCase?: boolean;
  /** Fields without presence, lists and maps are written even if they have their default value. Default: false. */
  alwaysEmitImplicit?: boolean;
  /**
   * Messages that are not set are written as null, except members of oneofs, optional fields, and google.protobuf.Value, of which
   * null is a value. Default: false.
   */
  emitUnsetMessages?: boolean;
  /** Enum values are written as numbers. Default: false. */
  enumAsInteger?: boolean;
  /**
   * 64-bit integers are written as numbers, not as strings: exactly, but JavaScript rounds those beyond 2^53 when it parses them. In
   * error details they remain strings. Default: false.
   */
  int64AsNumber?: boolean;
  /** Fields have their names in the .proto, not their JSON names. Default: false. */
  useProtoFieldName?: boolean;
};

export type CompleteJsonOptions = Readonly<Required<JsonOptions>>;

export const canonicalJson: CompleteJsonOptions = {
  ignoreUnknownFields: false,
  ignoreEnumCase: false,
  alwaysEmitImplicit: false,
  emitUnsetMessages: false,
  enumAsInteger: false,
  int64AsNumber: false,
  useProtoFieldName: false,
};

export function jsonKey(field: DescField, { useProtoFieldName }: CompleteJsonOptions): string {
  return useProtoFieldName ? field.name : field.jsonName;
}

export function isEmitted(field: DescField, { alwaysEmitImplicit }: CompleteJsonOptions): boolean {
  return (
    alwaysEmitImplicit &&
    field.oneof === undefined &&
    (field.fieldKind === "list" || field.fieldKind === "map" || field.presence === FeatureSet_FieldPresence.IMPLICIT)
  );
}

export function isEmittedAsNull(field: DescField, { emitUnsetMessages }: CompleteJsonOptions): boolean {
  return (
    emitUnsetMessages &&
    field.fieldKind === "message" &&
    field.message.typeName !== ValueSchema.typeName &&
    field.oneof === undefined &&
    !field.proto.proto3Optional
  );
}
