import { create, type DescMessage, type Message } from "@bufbuild/protobuf";

/**
 * Compiles what `create(desc)` does, for whoever makes thousands of one message: a copy of a zero message is
 * several times as fast as setting each field anew. It has the same properties.
 */
export function createZeroMaker(desc: DescMessage): () => Message & Record<string, unknown> {
  const zero = create(desc) as Message & Record<string, unknown>;
  // proto2 and editions keep defaults in a prototype, which a copy would lose.
  if (Object.getPrototypeOf(zero) !== Object.prototype) {
    return () => create(desc) as Message & Record<string, unknown>;
  }
  const names = Object.keys(zero);
  // V8 gives an object that has many properties set by name a slow shape; JSON.parse, and copies of what it gives, a fast one.
  const template = JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:null`).join()}}`) as typeof zero;
  const lists: string[] = [];
  const maps: string[] = [];
  const oneofs: string[] = [];
  for (const name of names) {
    const value = zero[name];
    template[name] = value;
    if (Array.isArray(value)) {
      lists.push(name);
    } else if (typeof value === "object" && value !== null && !(value instanceof Uint8Array)) {
      (Object.hasOwn(value, "case") ? oneofs : maps).push(name);
    }
  }
  return () => {
    const message = { ...template };
    for (let i = 0; i < lists.length; i++) {
      message[lists[i] as string] = [];
    }
    for (let i = 0; i < maps.length; i++) {
      message[maps[i] as string] = {};
    }
    for (let i = 0; i < oneofs.length; i++) {
      message[oneofs[i] as string] = { case: undefined };
    }
    return message;
  };
}
