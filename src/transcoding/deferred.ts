import type { DescMessage, DescMethod, Message } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";

/**
 * A request message as it was sent. It can be posted to another thread, and decoded there.
 *
 * Whoever transfers `bytes` puts them back afterwards: until then the message can't be read.
 */
export type Undecoded = {
  bytes: Uint8Array;
  readonly form: UndecodedForm;
};

/** How the bytes are decoded: as the body of an HTTP operation, or as the message of an RPC. */
export type UndecodedForm = HttpForm | { readonly kind: "proto" } | { readonly kind: "json" };

/** What the message is decoded from beside the body. */
export type HttpForm = {
  readonly kind: "http";
  /** The operation, by its `bindingName`. */
  readonly binding: string;
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly captures: readonly string[];
};

const undecoded = new WeakMap<Message, Undecoded>();

/** Makes a message that is decoded when one of its fields is read or set first. Reading throws what decoding throws. */
export function deferMessage(
  desc: DescMessage,
  { bytes, form }: Undecoded,
  decode: (bytes: Uint8Array) => Message,
): Message {
  const message: Message = { $typeName: desc.typeName };
  const source: Undecoded = { bytes, form };
  undecoded.set(message, source);
  let decoded: Record<string, unknown> | undefined;
  const settle = (): Record<string, unknown> => {
    decoded ??= decode(source.bytes) as Message & Record<string, unknown>;
    undecoded.delete(message);
    return decoded;
  };
  for (const { localName } of desc.members) {
    Object.defineProperty(message, localName, {
      enumerable: true,
      get: () => settle()[localName],
      set(value: unknown) {
        settle()[localName] = value;
      },
    });
  }
  return message;
}

/** What a message would be decoded from; undefined where it was decoded, and so may have been changed. */
export function undecodedOf(message: Message): Undecoded | undefined {
  return undecoded.get(message);
}

/** Whether the method is one of `deferred`, whatever rules in code have made of its options. */
export function isDeferred({ parent, name }: DescMethod, deferred: readonly DescMethod[]): boolean {
  return deferred.some((each) => each.parent === parent && each.name === name);
}
