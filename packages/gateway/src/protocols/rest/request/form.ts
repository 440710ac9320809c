import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { decodeLatin1 } from "#platform/bytes";
import type { ParameterBindingOptions } from "./parameter-name.ts";
import { createParameterReader } from "./parameters.ts";

export type FormReader = (bytes: Uint8Array) => Message;

export type FormOptions = {
  /** Ignores parameters that the message has no field for, instead of rejecting them. */
  readonly ignoreUnknown: boolean;
  readonly parameters: Omit<ParameterBindingOptions, "from">;
};

/** Compiles a form reader. A form takes the same parameters as a query, and also the fields with the `no_query` option. */
export function createFormReader(desc: DescMessage, { ignoreUnknown, parameters }: FormOptions): FormReader {
  const read = createParameterReader(desc, {
    ...parameters,
    from: "form",
    unknown: ignoreUnknown ? "ignore" : parameters.unknown,
  });
  return (bytes) => {
    const message = create(desc);
    read(message, decodeLatin1(bytes), 0);
    return message;
  };
}
