import { create, type DescMessage, type Message } from "@bufbuild/protobuf";
import { compile, literal } from "./compile.ts";

type ZeroMessage = Message & Record<string, unknown>;

/**
 * Compiles `create(desc)` to an object literal with the same properties in the same order, which is many times as fast as
 * setting each property.
 */
export function createZeroMessageFactory(desc: DescMessage): () => ZeroMessage {
  const interpreted = (): ZeroMessage => create(desc);
  const zero = interpreted();
  // proto2 and editions keep defaults in a prototype, which an object literal would not have.
  if (Object.getPrototypeOf(zero) !== Object.prototype) {
    return interpreted;
  }
  const members = Object.entries(zero).map(([name, value]) => `${literal(name)}: ${codeOf(name, value)}`);
  return compile({ zero }, `return () => ({ ${members.join()} });`, interpreted);
}

/** Each message needs lists, maps and oneofs of its own. Other values are shared. */
function codeOf(name: string, value: unknown): string {
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
