// One message to the child, as bytes: a marker, the lengths of two parts (32 bits each, big-endian), the message as JSON,
// and the payload as it is.

const marker = 0x666c6f77;
const prefixBytes = 12;

/** The pieces of a frame, in order; the payload is not copied. */
export function formatFrame(message: object, payload: Uint8Array): Uint8Array[] {
  const header = Buffer.from(JSON.stringify(message));
  const prefix = Buffer.alloc(prefixBytes);
  prefix.writeUInt32BE(marker, 0);
  prefix.writeUInt32BE(header.length, 4);
  prefix.writeUInt32BE(payload.length, 8);
  return [prefix, header, payload];
}

/**
 * Assembles frames from the chunks that are passed to what it returns.
 *
 * Throws where a frame should begin and does not: something else has read from the channel, and no length can be trusted.
 */
export function createFrameReader(frame: (message: unknown, payload: Buffer) => void): (chunk: Buffer) => void {
  let chunks: Buffer[] = [];
  let bytes = 0;
  let lengths: { readonly header: number; readonly payload: number } | undefined;

  function take(count: number): Buffer {
    const all = Buffer.concat(chunks, bytes);
    chunks = [all.subarray(count)];
    bytes -= count;
    return all.subarray(0, count);
  }

  return (chunk) => {
    chunks.push(chunk);
    bytes += chunk.length;
    for (;;) {
      if (lengths === undefined) {
        if (bytes < prefixBytes) return;
        const prefix = take(prefixBytes);
        if (prefix.readUInt32BE(0) !== marker) throw new Error("bytes are missing in the runtime's own channel");
        lengths = { header: prefix.readUInt32BE(4), payload: prefix.readUInt32BE(8) };
      }
      const { header, payload } = lengths;
      if (bytes < header + payload) return;
      const body = take(header + payload);
      lengths = undefined;
      frame(JSON.parse(body.toString("utf8", 0, header)), body.subarray(header));
    }
  };
}
