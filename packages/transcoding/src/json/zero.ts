import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { compile, literal } from "./compile.ts";

/**
 * Compiles what `create(desc)` does, for whoever makes thousands of one message: an object literal is several times
 * as fast as setting each field anew. It has the same properties, in the same order.
 */
export function createZeroMessageFactory(desc: DescMessage): () => Message & Record<string, unknown> {
  const zero = create(desc) as Message & Record<string, unknown>;
  // proto2 and editions keep defaults in a prototype, which a literal would lose.
  if (Object.getPrototypeOf(zero) !== Object.prototype) {
    return () => create(desc) as Message & Record<string, unknown>;
  }
  const members = Object.entries(zero).map(([name, value]) => `${literal(name)}: ${zeroOf(name, value)}`);
  return compile({ zero }, `return () => ({ ${members.join()} });`) as () => Message & Record<string, unknown>;
}

/** Lists, maps and oneofs are a message's own; other values are shared. */
function zeroOf(name: string, value: unknown): string {
  if (Array.isArray(value)) {
    return "[]";
  }
  if (typeof value === "object" && value !== null && !(value instanceof Uint8Array)) {
    return Object.hasOwn(value, "case") ? "{ case: undefined }" : "{}";
  }
  switch (typeof value) {
    case "string":
      return literal(value);
    case "number":
    case "boolean":
      return String(value);
    default:
      return `zero[${literal(name)}]`;
  }
}
