import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import type { ParameterOptions } from "./parameter-name.ts";
import { createParameterReader } from "./parameters.ts";

/** Reads an application/x-www-form-urlencoded document into a message. */
export type FormReader = (bytes: Uint8Array) => Message;

export type FormOptions = {
  /** Parameters that the message does not have are skipped, not refused. */
  readonly ignoreUnknown: boolean;
  readonly parameters: Pick<ParameterOptions, "unknown" | "bound" | "boundFields" | "maxDepth" | "registry">;
};

/** The parameters of a form are those that a query would have, and those that no query may. */
export function createFormReader(desc: DescMessage, { ignoreUnknown, parameters }: FormOptions): FormReader {
  const read = createParameterReader(desc, {
    ...parameters,
    from: "form",
    unknown: ignoreUnknown ? "ignore" : parameters.unknown,
  });
  return (bytes) => {
    const message = create(desc);
    read(message, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1"), 0);
    return message;
  };
}
