import {
  getOption,
  hasOption,
  toJson,
  type AnyDesc,
  type DescExtension,
  type DescFile,
  type JsonValue,
  type Message,
  type Registry,
} from "@bufbuild/protobuf";

/** Reads an option of a declaration by the full name of its extension, as JSON; undefined if it is not set. */
export type ReadOption = (desc: AnyDesc, name: string) => JsonValue | undefined;

/**
 * Reads the options that the registry has the extensions of. The files that set an option import its declaration, so that options of
 * any package can be read without its generated code. Enum values are names.
 */
export function createOptionReader(registry: Registry): ReadOption {
  return (desc, name) => {
    const extension = registry.getExtension(name);
    // The types relate the kind of the declaration to the extension, which is not known here.
    const element = desc as DescFile;
    if (extension === undefined || !hasOption(element, extension)) {
      return undefined;
    }
    const value: unknown = getOption(element, extension);
    return extension.message === undefined
      ? plainJson(extension, value)
      : toJson(extension.message, value as Message, { registry });
  };
}

function plainJson({ enum: desc }: DescExtension, value: unknown): JsonValue {
  if (Array.isArray(value)) {
    return value.map((each: unknown) => plainJson({ enum: desc } as DescExtension, each));
  }
  return desc === undefined ? (value as JsonValue) : (desc.value[value as number]?.name ?? String(value));
}
