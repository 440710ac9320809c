import type { Message } from "@bufbuild/protobuf";

/** Caches the result for each frozen message, so that responses to several clients share its memory. */
export function cacheFrozen<T>(compute: (message: Message) => T): (message: Message) => T {
  const cache = new WeakMap<Message, T>();
  return (message) => {
    if (!Object.isFrozen(message)) {
      return compute(message);
    }
    let result = cache.get(message);
    if (result === undefined) {
      result = compute(message);
      cache.set(message, result);
    }
    return result;
  };
}
