import type { DescMessage } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { RequestError, scanStructure } from "@flowgate/gateway/json";

/**
 * Throws a RequestError of status 413 if the message of a body would take more memory than half of `memoryMb` MiB, before it is
 * decoded. The other half is for everything else that decoding allocates.
 */
export function assertDecodable(desc: DescMessage, format: "proto" | "json", body: Uint8Array, memoryMb: number): void {
  const maxBytes = (memoryMb / 2) * 1024 * 1024;
  const bytes = format === "proto" ? estimateMessageBytes(desc, body, maxBytes) : estimateJsonBytes(body);
  if (bytes > maxBytes) {
    throw tooLargeToDecode(`more than ${memoryMb / 2} MiB of memory when it is decoded, half of limits.memoryMb`);
  }
}

/** The error for a body within limits.bodyBytes that takes this, which is too much memory. */
export function tooLargeToDecode(what: string): RequestError {
  return new RequestError(413, "payload_too_large", `the body takes ${what}: send less at once`);
}

// What objects take in V8's heap, measured (docs/decisions.md). `[{},{}]` becomes 27 times as much as its text.
const containerBytes = 64;
const valueBytes = 16;
const messageBytes = 96;

/** The nesting limit of decoders. */
const maxDepth = 100;

/** Characters outside of Latin-1 make each character of a string two bytes. */
const characterBytes = 2;

/** About how many bytes the value of a JSON document takes in memory. */
export function estimateJsonBytes(json: Uint8Array): number {
  const { commas, containers } = scanStructure(json);
  return characterBytes * json.length + containerBytes * containers + valueBytes * commas;
}

/**
 * About how many bytes a message takes in memory, from its binary form. For an invalid one the result has no meaning. Stops at
 * `maxBytes`, since counting the rest would block the event loop.
 */
export function estimateMessageBytes(desc: DescMessage, bytes: Uint8Array, maxBytes: number): number {
  const reader = new BinaryReader(bytes);
  let total = characterBytes * bytes.length;

  const read = (content: Content, end: number, depth: number): void => {
    total += content.bytes;
    while (reader.pos < end && total <= maxBytes) {
      const [number, type] = reader.tag();
      // The decoder rejects deeper messages.
      const inner = type === WireType.LengthDelimited && depth < maxDepth ? content.fields.get(number) : undefined;
      if (inner === undefined) {
        total += valueBytes;
        reader.skip(type, number);
      } else {
        const length = reader.uint32();
        read(inner, reader.pos + length, depth + 1);
      }
    }
  };
  try {
    read(contentOf(desc), bytes.length, 0);
  } catch {
    // The decoder rejects it, and says so.
  }
  return total;
}

/** The size of a message or map entry without its fields, and the content of its message and map fields. */
type Content = { readonly bytes: number; readonly fields: ReadonlyMap<number, Content> };

/** The field number of the value in an entry of a map. */
const entryValue = 2;

const contents = new WeakMap<DescMessage, Content>();

function contentOf(desc: DescMessage): Content {
  let content = contents.get(desc);
  if (content === undefined) {
    const fields = new Map<number, Content>();
    // A google.protobuf.Value becomes the value in it.
    content = { bytes: desc.typeName === ValueSchema.typeName ? 0 : messageBytes, fields };
    // Before its fields, since a message can contain messages of its own type.
    contents.set(desc, content);
    for (const { number, fieldKind, message } of desc.fields) {
      if (fieldKind === "map") {
        fields.set(number, { bytes: 0, fields: new Map(message && [[entryValue, contentOf(message)]]) });
      } else if (message !== undefined) {
        fields.set(number, contentOf(message));
      }
    }
  }
  return content;
}
