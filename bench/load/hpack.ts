/** Names in HPACK's static table (RFC 7541, appendix A), by index. */
const staticNames: Readonly<Record<string, number>> = {
  ":authority": 1,
  ":path": 4,
  authorization: 23,
  "content-type": 31,
};
const postMethod = 0x83;
const httpScheme = 0x86;
const staticEntries = 61;

export type HeaderBlocks = {
  /** For the first request of a connection: adds the fields to the dynamic table. */
  readonly first: Buffer;
  /** For later requests: indices only. */
  readonly later: Buffer;
};

/** Encodes the headers of a POST without TLS. Strings are not Huffman-coded. */
export function encodePost(fields: Readonly<Record<string, string>>): HeaderBlocks {
  const entries = Object.entries(fields);
  const pseudo = Buffer.from([postMethod, httpScheme]);
  const literals = entries.map(([name, value]) => encodeLiteral(name, value));
  const indices = entries.map((_, at) => encodeInteger(staticEntries + entries.length - at, 7, 0x80));
  return { first: Buffer.concat([pseudo, ...literals]), later: Buffer.concat([pseudo, ...indices]) };
}

/** A literal with incremental indexing (RFC 7541, section 6.2.1). */
function encodeLiteral(name: string, value: string): Buffer {
  const index = staticNames[name];
  const encodedName =
    index === undefined ? [encodeInteger(0, 6, 0x40), encodeString(name)] : [encodeInteger(index, 6, 0x40)];
  return Buffer.concat([...encodedName, encodeString(value)]);
}

function encodeString(text: string): Buffer {
  const bytes = Buffer.from(text, "latin1");
  return Buffer.concat([encodeInteger(bytes.length, 7, 0), bytes]);
}

/** RFC 7541, section 5.1. `pattern` contains the bits of the first byte before the prefix. */
function encodeInteger(value: number, prefixBits: number, pattern: number): Buffer {
  const max = 2 ** prefixBits - 1;
  if (value < max) {
    return Buffer.from([pattern | value]);
  }
  const bytes = [pattern | max];
  let rest = value - max;
  for (; rest >= 128; rest = Math.floor(rest / 128)) {
    bytes.push((rest % 128) | 128);
  }
  return Buffer.from([...bytes, rest]);
}
