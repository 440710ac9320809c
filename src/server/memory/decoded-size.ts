import type { DescMessage } from "@bufbuild/protobuf";
import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { scanStructure } from "@flowgate/transcoding/server";

// What objects take in V8's heap, measured (docs/decisions.md). `[{},{}]` becomes 27 times as much as its text.
const containerBytes = 64;
const valueBytes = 16;
const messageBytes = 96;

/** Characters outside of Latin-1 make each character of a string two bytes. */
const characterBytes = 2;

/** Deeper messages are rejected by the decoder. */
const maxDepth = 100;

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
      const inner = type === WireType.LengthDelimited && depth < maxDepth ? content.fieldContent(number) : undefined;
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

/** What a message, or an entry of a map, takes without its fields; and the content of a field, if that is one of these too. */
type Content = { readonly bytes: number; fieldContent(fieldNumber: number): Content | undefined };

const contents = new WeakMap<DescMessage, Content>();

function contentOf(desc: DescMessage): Content {
  const known = contents.get(desc);
  if (known !== undefined) return known;
  const fields = new Map(desc.fields.map((field) => [field.number, field]));
  const content: Content = {
    // A google.protobuf.Value becomes the value in it.
    bytes: desc.typeName === ValueSchema.typeName ? 0 : messageBytes,
    fieldContent(number) {
      const field = fields.get(number);
      if (field?.fieldKind !== "map") {
        return field?.message && contentOf(field.message);
      }
      const { message } = field;
      // The value of an entry is its second field.
      return { bytes: 0, fieldContent: (part) => (part === 2 && message ? contentOf(message) : undefined) };
    },
  };
  contents.set(desc, content);
  return content;
}
