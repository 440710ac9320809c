import type { DescMessage, DescMethod, Message } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";

/** A request message as it was sent. It can be posted to another thread, and decoded there. */
export type Undecoded = {
  readonly bytes: Uint8Array;
  readonly form: UndecodedForm;
};

/** How the bytes are decoded: as the body of an HTTP operation, or as the message of an RPC. */
export type UndecodedForm = HttpForm | { readonly kind: "proto" } | { readonly kind: "json" };

/** What the message is decoded from beside the body. */
export type HttpForm = {
  readonly kind: "http";
  /** The operation, by its `routeName`. */
  readonly route: string;
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly pathVariables: readonly string[];
};

const undecoded = new WeakMap<Message, Undecoded>();

/** Makes a message that is decoded when one of its fields is read or set first. Reading throws what decoding throws. */
export function deferMessage(desc: DescMessage, source: Undecoded, decode: (bytes: Uint8Array) => Message): Message {
  const message: Message = { $typeName: desc.typeName };
  undecoded.set(message, source);
  let decoded: Record<string, unknown> | undefined;
  const settle = (): Record<string, unknown> => {
    if (decoded === undefined) {
      if (!undecoded.has(message)) {
        throw new Error(`the request was taken undecoded: this ${desc.typeName} can't be read any more`);
      }
      decoded = decode(source.bytes);
      undecoded.delete(message);
    }
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

/** What a message will be decoded from; undefined for one that is decoded, and so may have been changed. */
export function undecodedOf(message: Message): Undecoded | undefined {
  return undecoded.get(message);
}

/** The same, for the caller alone, who may transfer the bytes: the message can't be read afterwards. */
export function takeUndecoded(message: Message): Undecoded | undefined {
  const source = undecoded.get(message);
  undecoded.delete(message);
  return source;
}

/** Whether the method is one of `deferred`, whatever rules in code have made of its options. */
export function isDeferred({ parent, name }: DescMethod, deferred: readonly DescMethod[]): boolean {
  return deferred.some((each) => each.parent === parent && each.name === name);
}
