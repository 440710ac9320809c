import type { DescMessage, DescMethod, Message } from "@bufbuild/protobuf";
import type { IncomingHttpHeaders } from "node:http";

/** A request message that is not decoded yet. It can be posted to another thread and decoded there. */
export type Undecoded = {
  readonly bytes: Uint8Array;
  readonly form: UndecodedForm;
};

/** The format of the bytes: the body of an HTTP operation, or an RPC message in binary or JSON. */
export type UndecodedForm = HttpForm | { readonly kind: "proto" } | { readonly kind: "json" };

/** The parts of an HTTP request, other than the body, that its message is decoded from. */
export type HttpForm = {
  readonly kind: "http";
  /** The name of the operation's route, see `routeName`. */
  readonly route: string;
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly pathVariables: readonly string[];
};

const undecoded = new WeakMap<Message, Undecoded>();

/**
 * Creates a message that is decoded on the first access to one of its fields. The access throws what `decode` throws,
 * and an Error after the encoded request was taken.
 */
export function deferMessage(desc: DescMessage, source: Undecoded, decode: (bytes: Uint8Array) => Message): Message {
  const message: Message = { $typeName: desc.typeName };
  undecoded.set(message, source);
  let decoded: Record<string, unknown> | undefined;
  const decodeOnce = (): Record<string, unknown> => {
    if (decoded === undefined) {
      if (!undecoded.has(message)) {
        throw new Error(`the encoded request was taken: this ${desc.typeName} can't be read any more`);
      }
      decoded = decode(source.bytes);
      undecoded.delete(message);
    }
    return decoded;
  };
  for (const { localName } of desc.members) {
    Object.defineProperty(message, localName, {
      enumerable: true,
      get: () => decodeOnce()[localName],
      set(value: unknown) {
        decodeOnce()[localName] = value;
      },
    });
  }
  return message;
}

/** Returns the encoded request of a deferred message; undefined if the message is decoded, and so may have been modified. */
export function undecodedOf(message: Message): Undecoded | undefined {
  return undecoded.get(message);
}

/**
 * Like the above, but gives the caller ownership of the bytes, which may then be transferred to another thread. The
 * message can't be read afterwards.
 */
export function takeUndecoded(message: Message): Undecoded | undefined {
  const source = undecoded.get(message);
  undecoded.delete(message);
  return source;
}

/** Whether the method is in `deferred`. Compared by service and name, since rules can replace a method by a copy. */
export function isDeferred({ parent, name }: DescMethod, deferred: readonly DescMethod[]): boolean {
  return deferred.some((each) => each.parent === parent && each.name === name);
}
