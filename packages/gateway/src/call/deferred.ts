import type { DescMessage, DescMethod, Message } from "@bufbuild/protobuf";
import type { RequestHeaders } from "../http/request.ts";
import { createLazyMessage } from "../schema/field-value.ts";

/** A request message that is not decoded yet. It can be posted to another thread and decoded there. */
export type EncodedRequest = { readonly bytes: Uint8Array; readonly format: RequestFormat };

/** The format of the bytes: the body of an HTTP operation, or an RPC message in binary or JSON. */
export type RequestFormat = HttpFormat | { readonly kind: "proto" } | { readonly kind: "json" };

/** The parts of an HTTP request, other than the body, that its message is decoded from. */
export type HttpFormat = {
  readonly kind: "http";
  readonly route: string;
  readonly httpMethod: string;
  readonly target: string;
  readonly headers: RequestHeaders;
  readonly pathVariables: readonly string[];
};

const encodedRequests = new WeakMap<Message, EncodedRequest>();

/**
 * Creates a message that is decoded on the first access to one of its fields. The access throws what `decode` throws,
 * and an Error after the encoded request was taken.
 */
export function deferMessage(
  desc: DescMessage,
  encoded: EncodedRequest,
  decode: (bytes: Uint8Array) => Message,
): Message {
  const message = createLazyMessage(desc, () => {
    if (!encodedRequests.has(message)) {
      throw new Error(`the encoded request was taken: this ${desc.typeName} can't be read any more`);
    }
    const decoded = decode(encoded.bytes);
    encodedRequests.delete(message);
    return decoded;
  });
  encodedRequests.set(message, encoded);
  return message;
}

/** Returns the encoded request of a deferred message; undefined if the message is decoded, and so may have been modified. */
export function getEncodedRequest(message: Message): EncodedRequest | undefined {
  return encodedRequests.get(message);
}

/**
 * Returns the encoded request of a deferred message and transfers its ownership to the caller, who may transfer the bytes to
 * another thread. The message can't be read afterwards. Undefined as for `getEncodedRequest`.
 */
export function takeEncodedRequest(message: Message): EncodedRequest | undefined {
  const encoded = encodedRequests.get(message);
  encodedRequests.delete(message);
  return encoded;
}

/** True if the method is in `deferred`. Compared by service and name, since rules can replace a method by a copy. */
export function isDeferred({ parent, name }: DescMethod, deferred: readonly DescMethod[]): boolean {
  return deferred.some((each) => each.parent === parent && each.name === name);
}
